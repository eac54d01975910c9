"""Public data sets: what their official files say of images, patients, sites and labels, and what they can't say."""

from splits.datasets.aptos import APTOS
from splits.datasets.base import DataSet, Images
from splits.datasets.camelyon17 import CAMELYON17
from splits.datasets.chexpert import CHEXPERT
from splits.datasets.covidx import COVIDX, COVIDX_BINARY
from splits.datasets.digestpath import DIGESTPATH
from splits.datasets.eyepacs import EYEPACS
from splits.datasets.ham10000 import HAM10000, ISIC2019
from splits.datasets.kather import KATHER
from splits.datasets.medmnist import MEDMNIST
from splits.datasets.messidor import MESSIDOR
from splits.datasets.messidor2 import MESSIDOR2
from splits.datasets.nih import NIH
from splits.datasets.pannuke import PANNUKE
from splits.datasets.rsna import RSNA, RSNA_BINARY

# The nine sets of the calibration benchmark first, then others by kind of image.
DATASETS: dict[str, DataSet] = {
    data_set.key: data_set
    for data_set in (
        APTOS, EYEPACS, MESSIDOR, MESSIDOR2, KATHER, PANNUKE, DIGESTPATH, COVIDX, RSNA,
        COVIDX_BINARY, RSNA_BINARY, NIH, CHEXPERT, CAMELYON17, HAM10000, ISIC2019, *MEDMNIST,
    )
}  # fmt: skip

__all__ = ["DATASETS", "DataSet", "Images"]
