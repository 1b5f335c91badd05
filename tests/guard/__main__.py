"""`python -m tests.guard`: the evaluator's table for each part of the corpus."""

from __future__ import annotations

import sys

from tests.guard.evaluate import cases, evaluate, table

for name in ("open.jsonl", "held_back.jsonl"):
    corpus = cases(name)
    if corpus:
        sys.stdout.write(f"{name}\n{table(evaluate(corpus))}\n\n")
