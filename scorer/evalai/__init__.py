"""The remote worker of an EvalAI challenge: takes submissions from its queue to the sealed scorer, and results back."""
