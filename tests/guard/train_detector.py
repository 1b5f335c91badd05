"""`python -m tests.guard.train_detector`: the detector's weights, from the corpus, and its curve for unseen writers.

Positive is a sentence in which a labelled claim stands that something was done. Negative is every other one, what tells
a failure among them; a sentence about what is under way, promised or merely read is left out. Training is logistic
regression with a step for each feature, averaged, in a fixed order: the same corpus gives the same weights. It takes
some minutes.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path
from typing import Any

from reviews.guarding.rules import detector
from reviews.guarding.rules.folding import fold
from reviews.guarding.rules.segments import sentences
from tests.guard.evaluate import CORPUS, cases, labels_of

EPOCHS, STEP, SHRINK, SEED = 6, 0.5, 2e-6, 7
PARTS = 8
TOUCHED = (0.02, 0.05, 0.10, 0.20)
KEPT = 12_000
THRESHOLD = 1.1
"""From this score on a sentence is a report: one message in twenty that reports nothing is touched."""
FEWEST = 40
OUT = Path(detector.__file__).parent / "detector_weights.json"


@dataclass(frozen=True)
class Example:
    """A sentence: its features, whether it is a report, where it came from; `message` tells sentences of one apart."""

    features: tuple[str, ...]
    is_report: bool
    message: str
    writer: str
    domain: str


@dataclass
class Model:
    weights: dict[str, float]
    bias: float

    def score(self, example: Example) -> float:
        """The score of a sentence, as the product gives it."""
        known = sum(self.weights.get(each, 0.0) for each in example.features)
        return self.bias + known / sqrt(len(example.features) or 1)


def examples() -> list[Example]:
    """The sentences of the corpus, and of messages that report nothing."""
    found = [each for name in ("open.jsonl", "held_back.jsonl") for case in cases(name) for each in _of_case(case)]
    for name, is_report in (("quiet", False), ("told", True)):
        for number, text in enumerate((CORPUS / f"{name}.txt").read_text().split("\n\n")):
            message = text.strip()
            end = sentences(fold(message))[0].end
            labels = [((0, end), "done")] if is_report else []
            # Each message is a writer of its own, so that its like is never learnt where it is tested.
            found += _sentences(message, labels, f"{name}-{number}", f"{name}-{number}", f"{name}-{number}")
    return found


def _of_case(case: dict[str, Any]) -> list[Example]:
    reads = {tool["name"] for tool in case["tools"] if not tool.get("mutating", True)}
    asked = {each["action_id"] for each in case["actions"] if each["tool"] in reads}
    kinds = ["read" if each["action_id"] in asked else each["kind"] for each in case["claims"]]
    labels = [(span, kind) for (span, _, _), kind in zip(labels_of(case), kinds, strict=True)]
    return _sentences(case["message"], labels, case["id"], case["voice"], case["domain"])


def _sentences(
    message: str, labels: Sequence[tuple[tuple[int, int], str]], name: str, writer: str, domain: str
) -> list[Example]:
    folded, found = fold(message), []
    for each in sentences(folded):
        start, end = folded.span(each.start, each.end)
        kinds = {kind for (begin, stop), kind in labels if min(stop, end) - max(begin, start) > 3}
        if each.question or (kinds - {"failed"} and "done" not in kinds):
            continue
        text = folded.lower[each.start : each.end]
        found.append(Example(tuple(detector.features(text)), "done" in kinds, name, writer, domain))
    return found


def trained(learnt: Sequence[Example]) -> Model:
    """Logistic regression over these sentences."""
    weights: dict[str, float] = defaultdict(float)
    sums: dict[str, float] = defaultdict(float)
    squares: dict[str, float] = defaultdict(lambda: 1e-3)
    bias, order, shuffled, steps = 0.0, list(learnt), random.Random(SEED), 0
    for _ in range(EPOCHS):
        shuffled.shuffle(order)
        for each in order:
            steps += 1
            share = 1 / sqrt(len(each.features) or 1)
            z = bias + share * sum(weights[name] for name in each.features)
            wrong = (1.0 if each.is_report else 0.0) - 1 / (1 + exp(-max(-30.0, min(30.0, z))))
            bias += 0.02 * wrong
            for name in each.features:
                slope = wrong * share
                squares[name] += slope * slope
                change = STEP * slope / sqrt(squares[name]) - SHRINK * weights[name]
                weights[name] += change
                sums[name] += change * steps
    return Model({name: value - sums[name] / (steps + 1) for name, value in weights.items()}, bias)


def left_out(everything: Sequence[Example], part_of: Callable[[Example], str]) -> list[tuple[Example, float]]:
    """Each sentence with the score of a model that never saw its part: its writer, or its domain."""
    parts = sorted({part_of(each) for each in everything})
    random.Random(SEED).shuffle(parts)
    scored: list[tuple[Example, float]] = []
    for number in range(PARTS):
        unseen = set(parts[number::PARTS])
        model = trained([each for each in everything if part_of(each) not in unseen])
        scored += [(each, model.score(each)) for each in everything if part_of(each) in unseen]
    return scored


def curve(scored: Iterable[tuple[Example, float]]) -> str:
    """Which share of the reports is found where so many messages that report nothing are touched, and the score."""
    highest: dict[str, float] = {}
    reports: list[float] = []
    reporting: set[str] = set()
    for each, value in scored:
        highest[each.message] = max(value, highest.get(each.message, -99.0))
        if each.is_report:
            reports.append(value)
            reporting.add(each.message)
    quiet = sorted((value for name, value in highest.items() if name not in reporting), reverse=True)
    points = []
    for share in TOUCHED:
        least = quiet[int(share * len(quiet))]
        found = sum(value > least for value in reports) / len(reports)
        points.append(f"{found:.2f} at {share:.0%} touched (from {least:.2f})")
    return ", ".join(points)


def by_writer(scored: Iterable[tuple[Example, float]]) -> Iterator[str]:
    """Which share of the reports of each larger writer is found from the shipped threshold on."""
    found: dict[str, list[bool]] = defaultdict(list)
    for each, value in scored:
        if each.is_report:
            found[each.writer].append(value >= THRESHOLD)
    for writer, hits in sorted(found.items(), key=lambda item: -len(item[1])):
        if len(hits) >= FEWEST:
            yield f"  {writer}: {sum(hits)}/{len(hits)} = {sum(hits) / len(hits):.2f}"


def document(model: Model) -> dict[str, Any]:
    """The weights as they are shipped: the heaviest, to three places, in the order of their names."""
    heaviest = sorted(model.weights, key=lambda name: (-abs(model.weights[name]), name))[:KEPT]
    weights = {name: round(model.weights[name], 3) for name in sorted(heaviest)}
    return {"bias": round(model.bias, 3), "threshold": THRESHOLD, "weights": weights}


def main() -> None:
    """Print the curves, train on everything and write the weights."""
    everything = examples()
    reports = sum(each.is_report for each in everything)
    sys.stdout.write(f"{len(everything)} sentences, {reports} reports\n")
    scored = left_out(everything, lambda each: each.writer)
    sys.stdout.write(f"writers left out: found {curve(scored)}\n" + "\n".join(by_writer(scored)) + "\n")
    sys.stdout.write(f"domains left out: found {curve(left_out(everything, lambda each: each.domain))}\n")
    OUT.write_text(json.dumps(document(trained(everything)), ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
