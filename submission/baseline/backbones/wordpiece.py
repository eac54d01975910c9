"""BERT's word pieces from the files beside a checkpoint, without the hub."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import BertWordPieceTokenizer, Tokenizer

from submission.baseline.errors import BaselineError

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")


class WordPiece:
    """A vocabulary of ``size`` word pieces with BERT's marks; ``pad`` is the id of padding."""

    def __init__(self, tokenizer: Any, what: str) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        ids = [tokenizer.token_to_id(mark) for mark in MARKS]
        if None in ids:
            raise BaselineError(f"{what}: no {MARKS[ids.index(None)]} among its word pieces; take the released file")
        self.pad: int = ids[0]
        self.end: int = ids[3]
        self.size: int = tokenizer.get_vocab_size()

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text between [CLS] and [SEP], not cut."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]


def from_pieces(pieces: Mapping[str, int], what: str, *, lowercase: bool = True) -> WordPiece:
    """A tokenizer of these word pieces."""
    if any(mark not in pieces for mark in MARKS):
        missing = next(mark for mark in MARKS if mark not in pieces)
        raise BaselineError(f"{what}: no {missing} among its word pieces; take the released file")
    return WordPiece(BertWordPieceTokenizer(vocab=dict(pieces), lowercase=lowercase), what)


def read_pieces(files: Mapping[str, Path], rows: int, name: str, beside: Path, hub: str) -> WordPiece:
    """The tokenizer of ``name`` from ``tokenizer.json``, or from ``vocab.txt``, among ``files``.

    Letters are lowered unless ``tokenizer_config.json`` says ``do_lower_case: false``, as transformers reads a folder.
    ``rows``: of the embedding of words, which the vocabulary must have as many entries as. BaselineError where there is
    no such file, it is damaged or of another model; ``hub`` is named as the place to take it from.
    """
    place = next((files[key] for key in FILES[:2] if key in files), None)
    if place is None:
        raise BaselineError(
            f"{name}: no {FILES[1]} and no {FILES[0]} beside {beside}: put {FILES[1]} of {hub} (huggingface.co) there"
        )
    try:
        if place.name == FILES[0]:
            found = WordPiece(Tokenizer.from_file(str(place)), str(place))
        else:
            lines = place.read_text("utf-8").splitlines()
            pieces = {line.rstrip("\r"): index for index, line in enumerate(lines)}
            found = from_pieces(pieces, str(place), lowercase=_lowers(files))
    except BaselineError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise BaselineError(f"{place} is no vocabulary ({str(error)[:120]}): take it from {hub} anew") from None
    if found.size != rows:
        raise BaselineError(
            f"{place} has {found.size:,} word pieces, the weights of {name} are for {rows:,}: take {FILES[1]} of {hub}"
        )
    return found


def _lowers(files: Mapping[str, Path]) -> bool:
    """Whether letters are lowered: transformers does so unless the folder says otherwise."""
    said = read_json(files.get(FILES[2])).get("do_lower_case", True)
    return bool(said)


def read_json(path: Path | None) -> dict[str, Any]:
    """What a configuration file says; empty where there is none. BaselineError where it is no JSON object."""
    if path is None:
        return {}
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BaselineError(f"{path} can't be read as JSON ({str(error)[:120]}): download it anew") from None
    if not isinstance(said, dict):
        raise BaselineError(f"{path} is no JSON object: download it anew")
    return said
