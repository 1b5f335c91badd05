"""The small recordings of these tests are what the formats' own packages accept, where those are installed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.transcripts.written import WRITERS

ONE = ("1", "bash", {"command": "rm a"})
pytestmark = pytest.mark.long


def items(name: str) -> list[Any]:
    """A conversation with an outcome of each state."""
    writer = WRITERS[name]
    steps = [writer.step([ONE], [("1", "bash", "gone", state)]) for state in ("failed", "succeeded", "")]
    return [writer.heard("Remove a."), *(one for step in steps for one in step), writer.said("I have removed a.")]


def imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed")


def test_converse_accepts_the_messages_for_bedrock():
    session, validate = imported("botocore.session"), imported("botocore.validate")
    shape = session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    report = validate.ParamValidator().validate({"modelId": "m", "messages": items("Bedrock Converse")}, shape)

    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize("name", ["Gemini", "Gemini, Python SDK"])
def test_the_python_sdk_accepts_the_contents_for_gemini(name):
    types = imported("google.genai.types")

    assert [types.Content.model_validate(one).role for one in items(name)][-1] == "model"


def test_inspect_ai_accepts_the_messages_of_a_sample():
    model, pydantic = imported("inspect_ai.model"), imported("pydantic")

    assert len(pydantic.TypeAdapter(list[model.ChatMessage]).validate_python(items("inspect_ai"))) == 8


def test_anthropics_sdk_accepts_the_messages():
    types, pydantic = imported("anthropic.types"), imported("pydantic")

    assert len(pydantic.TypeAdapter(list[types.MessageParam]).validate_python(items("Anthropic"))) == 8


def test_harbor_accepts_the_trajectory():
    trajectories = imported("harbor.models.trajectories")
    trajectories.Trajectory.model_validate(WRITERS["ATIF"].whole(items("ATIF"), "s1"))


def test_autogen_accepts_the_messages():
    factory = imported("autogen_agentchat.messages").MessageFactory()

    assert len([factory.create(one) for one in items("AutoGen")]) == 8
