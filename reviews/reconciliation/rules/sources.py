"""Classify sources: which readings decide an action's verdict, and which can only contradict it (R-RC-13, R-VD-06,
C-25).

1. A CRITICAL_MUTATION is decided by all sources that its contract declares; each must answer strongly. With one
   declared source there is nothing to agree with, and neither success nor absence can be told.
2. A READ_ONLY action is decided by the first source, in the declared order, that answers strongly: the further ones
   are the alternates of the class's fallback (RT-43).
3. In every other class the primary source decides. A further one that answers strongly testifies: where it disagrees,
   nothing is reported as done or as not done; where it is silent or weak, the primary stands alone.
"""

from __future__ import annotations

from reviews.reconciliation.rules.facts import ReadFailure, RunInputs
from reviews.reconciliation.rules.reading import Reading


def deciding_readings(inputs: RunInputs) -> tuple[Reading, ...]:
    """The readings that the verdict rests on."""
    if inputs.facts.critical:
        return inputs.readings
    primary = tuple(reading for reading in inputs.readings if not reading.name)
    if inputs.facts.mutating or any(reading.is_strong for reading in primary):
        return primary
    alternate = next((reading for reading in inputs.readings if reading.is_strong), None)
    return primary if alternate is None else (alternate,)


def witness_readings(inputs: RunInputs) -> tuple[Reading, ...]:
    """The further readings that may speak against the deciding ones."""
    if inputs.facts.critical or not inputs.facts.mutating:
        return ()
    return tuple(reading for reading in inputs.readings if reading.name and reading.is_strong)


def unanswered_sources(inputs: RunInputs) -> tuple[tuple[str, ReadFailure | None], ...]:
    """The sources that must answer and have not, each with why, where that is known; the primary one has no name."""
    answered = {reading.name for reading in inputs.readings}
    failures = {failure.source: failure for failure in (inputs.failure, *inputs.silent) if failure is not None}
    wanted = ["", *(source.name for source in inputs.facts.further)] if inputs.facts.critical else [""]
    if not inputs.facts.mutating and deciding_readings(inputs):
        return ()
    return tuple((name, failures.get(name)) for name in wanted if name not in answered)


def lacks_second_source(inputs: RunInputs) -> bool:
    """Whether the class asks for several sources and the contract declares one (rule 1)."""
    return inputs.facts.critical and not inputs.facts.further
