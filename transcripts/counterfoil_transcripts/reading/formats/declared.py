"""The formats that are data alone. What each program writes was read in its own source or types, in the versions named.

An id that stands nowhere ties nothing: such an outcome belongs to the first open call of its tool, as for every format.
"""

from __future__ import annotations

from counterfoil_transcripts.reading.formats.paths import snake_case
from counterfoil_transcripts.reading.formats.places import Call, DeclaredFormat, Mark, Outcome, Part, Place, Sign
from counterfoil_transcripts.reading.records import AGENT, SYSTEM, TOOL, USER

_ROLES = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": AGENT, "tool": TOOL}
_TEXT = Part(("text",), words=("text",))
_INVOCATION = "toolInvocation."


def _invocation(start: str) -> tuple[Call, Outcome]:
    return (
        Call((f"{start}toolName",), (f"{start}args",), (f"{start}toolCallId",)),
        Outcome(
            (f"{start}result",),
            (f"{start}toolCallId",),
            (f"{start}toolName",),
            when=(Sign(f"{start}state", ("result",)),),
        ),
    )


AI_SDK_4 = DeclaredFormat(
    name="ai-sdk-4",
    about="Vercel's AI SDK 4: `CoreMessage` and `UIMessage`",
    role=("role",),
    roles=_ROLES,
    marks=(
        Mark("content", ("toolCallId", "args"), ("input",), (Sign("type", ("tool-call",)),)),
        Mark("content", ("toolCallId", "result"), ("output",), (Sign("type", ("tool-result",)),)),
        Mark("parts", ("toolInvocation.toolCallId",), (), (Sign("type", ("tool-invocation",)),)),
        Mark("toolInvocations", ("toolCallId", "state")),
    ),
    places=(
        Place(
            "content",
            "type",
            (
                _TEXT,
                Part(("tool-call",), Call(("toolName",), ("args",), ("toolCallId",))),
                Part(
                    ("tool-result",),
                    outcome=Outcome(("result",), ("toolCallId",), ("toolName",), failed=(Sign("isError", (True,)),)),
                ),
                Part(("reasoning", "redacted-reasoning", "file", "image")),
            ),
            unless="parts",
        ),
        Place(
            "parts",
            "type",
            (
                _TEXT,
                Part(("tool-invocation",), *_invocation(_INVOCATION), needs=("toolInvocation.toolCallId",)),
                Part(("reasoning", "source", "file", "step-start")),
            ),
        ),
        Place("toolInvocations", "", (Part(("",), *_invocation("")),), unless="parts"),
    ),
    once="`toolInvocations` and `content` beside `parts`",
)

_UI_ENDS = ("output-available", "output-error", "output-denied")


def _ui_tool(name: str) -> tuple[Call, Outcome]:
    return (
        Call((name,), ("input", "rawInput"), ("toolCallId",)),
        Outcome(
            ("output", "errorText", "approval.reason"),
            ("toolCallId",),
            (),
            failed=(Sign("state", ("output-error", "output-denied")), Sign("approval.approved", (False,))),
            open=(Sign("preliminary", (True,)),),
            when=(Sign("state", _UI_ENDS), Sign("approval.approved", (False,))),
        ),
    )


AI_SDK_5 = DeclaredFormat(
    name="ai-sdk-5",
    about="Vercel's AI SDK 5 to 7: `ModelMessage` and `UIMessage`",
    role=("role",),
    roles=_ROLES,
    marks=(
        Mark("content", ("toolCallId", "input"), ("args",), (Sign("type", ("tool-call",)),)),
        Mark("content", ("toolCallId", "output.type"), ("result",), (Sign("type", ("tool-result",)),)),
        Mark("content", ("toolCallId", "error"), (), (Sign("type", ("tool-error",)),)),
        Mark("parts", ("type", "toolCallId", "state"), ("toolInvocation",)),
        Mark("", ("id", "parts.0.type"), ("content", "toolInvocations")),
    ),
    places=(
        Place(
            "content",
            "type",
            (
                _TEXT,
                Part(("tool-call",), Call(("toolName",), ("input",), ("toolCallId",))),
                Part(
                    ("tool-result",),
                    outcome=Outcome(
                        ("output.value", "output.reason"),
                        ("toolCallId",),
                        ("toolName",),
                        failed=(Sign("output.type", ("error-text", "error-json", "execution-denied")),),
                    ),
                ),
                Part(
                    ("tool-error",),
                    outcome=Outcome(
                        ("error",), ("toolCallId",), ("toolName",), failed=(Sign("type", ("tool-error",)),)
                    ),
                ),
                Part(("reasoning", "reasoning-file", "file", "image", "source", "custom")),
                Part(("tool-approval-request", "tool-approval-response")),
            ),
        ),
        Place(
            "parts",
            "type",
            (
                _TEXT,
                Part(("dynamic-tool",), *_ui_tool("toolName")),
                Part(("reasoning", "reasoning-file", "file", "source-url", "source-document", "step-start", "custom")),
                Part(("data-*",)),
                Part(("tool-*",), *_ui_tool("*"), needs=("toolCallId", "state")),
            ),
        ),
    ),
)

BEDROCK = DeclaredFormat(
    name="bedrock-converse",
    about="Amazon Bedrock's Converse API (service model of botocore 1.43)",
    role=("role",),
    roles={"user": USER, "assistant": AGENT, "system": SYSTEM},
    marks=(Mark("content", ("toolUse.toolUseId",)), Mark("content", ("toolResult.toolUseId",))),
    places=(
        Place(
            "content",
            "{}",
            (
                Part(("toolUse",), Call(("toolUse.name",), ("toolUse.input",), ("toolUse.toolUseId",))),
                Part(
                    ("toolResult",),
                    outcome=Outcome(
                        ("toolResult.content",),
                        ("toolResult.toolUseId",),
                        failed=(Sign("toolResult.status", ("error",)),),
                        succeeded=(Sign("toolResult.status", ("success",)),),
                    ),
                ),
                Part(("text",), words=("text",)),
                Part(("citationsContent",), words=("citationsContent.content",)),
                Part(("image", "document", "video", "audio", "guardContent", "cachePoint", "reasoningContent")),
                Part(("searchResult",)),
            ),
        ),
    ),
)


def _both(*names: str) -> tuple[str, ...]:
    """The paths in the spelling of the REST API and in that of the Python SDK."""
    return tuple(dict.fromkeys((*names, *map(snake_case, names))))


GEMINI = DeclaredFormat(
    name="gemini",
    about="Gemini's `Content`, in the names of the REST API or of the Python SDK (google-genai 3.6)",
    role=("role",),
    roles={"user": USER, "model": AGENT, "function": USER, "system": SYSTEM},
    marks=(
        *(Mark("parts", (name,), ("type",)) for name in _both("functionCall", "functionResponse", "executableCode")),
        *(Mark("parts", (name,), ("type",)) for name in _both("codeExecutionResult", "toolCall", "toolResponse")),
        Mark("parts", ("text",), ("type",)),
    ),
    places=(
        Place(
            "parts",
            "{}",
            (
                Part(
                    _both("functionCall"),
                    Call(
                        _both("functionCall.name"),
                        _both("functionCall.args"),
                        _both("functionCall.id"),
                    ),
                ),
                Part(
                    _both("functionResponse"),
                    outcome=Outcome(
                        _both("functionResponse.response"),
                        _both("functionResponse.id"),
                        _both("functionResponse.name"),
                        failed=tuple(Sign(one) for one in _both("functionResponse.response.error")),
                        open=tuple(Sign(one, (True,)) for one in _both("functionResponse.willContinue")),
                    ),
                ),
                Part(
                    _both("executableCode"),
                    Call(
                        ("=code_execution",),
                        _both("executableCode.code"),
                        _both("executableCode.id"),
                        free_text=True,
                    ),
                ),
                Part(
                    _both("codeExecutionResult"),
                    outcome=Outcome(
                        _both("codeExecutionResult.output"),
                        _both("codeExecutionResult.id"),
                        ("=code_execution",),
                        failed=tuple(
                            Sign(one, ("OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"))
                            for one in _both("codeExecutionResult.outcome")
                        ),
                        succeeded=tuple(Sign(one, ("OUTCOME_OK",)) for one in _both("codeExecutionResult.outcome")),
                    ),
                ),
                Part(
                    _both("toolCall"),
                    Call(_both("toolCall.toolType"), _both("toolCall.args"), _both("toolCall.id")),
                ),
                Part(
                    _both("toolResponse"),
                    outcome=Outcome(
                        _both("toolResponse.response"), _both("toolResponse.id"), _both("toolResponse.toolType")
                    ),
                ),
                Part(("text",), words=("text",), silent=(Sign("thought", (True,)),)),
                Part(_both("inlineData", "fileData", "thought", "thoughtSignature")),
            ),
        ),
    ),
)

OPENTELEMETRY = DeclaredFormat(
    name="opentelemetry",
    about="spans of OpenTelemetry's GenAI conventions from 1.37 on, as OTLP JSON or as the Python SDK prints them",
    role=("role",),
    roles=_ROLES,
    marks=(
        Mark("parts", (), (), (Sign("type", ("tool_call", "tool_call_response")),)),
        Mark("parts", (), (), (Sign("type", ("server_tool_call", "server_tool_call_response")),)),
        Mark("parts", ("type", "content")),
    ),
    places=(
        Place(
            "parts",
            "type",
            (
                Part(("text",), words=("content",)),
                Part(("tool_call",), Call(("name",), ("arguments",), ("id",))),
                Part(
                    ("tool_call_response",),
                    outcome=Outcome(
                        ("response", "result", "error_type"), ("id",), ("name",), failed=(Sign("error_type"),)
                    ),
                ),
                Part(("server_tool_call",), Call(("name",), ("server_tool_call",), ("id",))),
                Part(("server_tool_call_response",), outcome=Outcome(("server_tool_call_response",), ("id",))),
                Part(("reasoning", "blob", "file", "uri", "compaction")),
            ),
        ),
    ),
    once="input messages that an earlier span of the conversation had; a tool's result that its own span states too",
)

INSPECT = DeclaredFormat(
    name="inspect",
    about="samples of inspect_ai's JSON logs (0.3)",
    role=("role",),
    roles=_ROLES,
    marks=(
        Mark("tool_calls", ("function", "arguments", "id"), ("name",), ()),
        Mark("", ("tool_call_id", "function"), (), (Sign("role", ("tool",)),)),
        Mark("", ("error.type", "error.message"), (), (Sign("role", ("tool",)),)),
        Mark("content", ("tool_type", "arguments"), (), (Sign("type", ("tool_use",)),)),
    ),
    places=(
        Place(
            "content",
            "type",
            (
                _TEXT,
                Part(
                    ("tool_use",),
                    Call(("name",), ("arguments",), ("id",)),
                    Outcome(("error", "result"), ("id",), ("name",), failed=(Sign("error"),)),
                ),
                Part(("reasoning", "image", "audio", "video", "document", "data")),
            ),
            when=(Sign("role", ("tool",), other=True),),
        ),
        Place("tool_calls", "", (Part(("",), Call(("function",), ("arguments",), ("id",))),)),
        Place(
            "",
            "",
            (
                Part(
                    ("",),
                    outcome=Outcome(
                        ("error.message", "content"),
                        ("tool_call_id",),
                        ("function",),
                        failed=(Sign("error"),),
                        when=(Sign("role", ("tool",)),),
                    ),
                ),
            ),
        ),
    ),
    once="`messages` are read, the `events` that repeat them are not",
)

_SOURCES = {"agent": AGENT, "user": USER, "environment": SYSTEM}
_RUN_CODES = ("extras.metadata.exit_code", "extras.exit_code")
_ASKED = "tool_call_metadata.model_response.choices.0.message.tool_calls[id=tool_call_metadata.tool_call_id]"
OPENHANDS_0 = DeclaredFormat(
    name="openhands-0",
    about="OpenHands 0.x: events with `action` or `observation`, as a saved trajectory or one a line",
    role=("source",),
    roles=_SOURCES,
    marks=(Mark("", ("action", "args", "source")), Mark("", ("observation", "content", "source"))),
    places=(
        Place(
            "",
            "action",
            (
                Part(
                    (
                        *("run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive"),
                        *("call_tool_mcp", "delegate", "push", "send_pr", "task_tracking"),
                    ),
                    Call(
                        ("tool_call_metadata.function_name", "action"),
                        (f"{_ASKED}.function.arguments", "args"),
                        ("id",),
                    ),
                    words=("args.thought",),
                ),
                Part(("message",), words=("args.content",)),
                Part(("finish",), words=("args.thought", "args.final_thought")),
                Part(
                    (
                        *("system", "start", "think", "reject", "null", "pause", "resume", "stop", "recall"),
                        *("change_agent_state", "condensation", "condensation_request", "loop_recovery"),
                    )
                ),
            ),
        ),
        Place(
            "",
            "observation",
            (
                Part(
                    ("run",),
                    outcome=Outcome(
                        ("content",),
                        ("cause",),
                        exit_code=_RUN_CODES,
                        open=tuple(Sign(code, (-1,)) for code in _RUN_CODES),
                    ),
                ),
                Part(
                    ("error", "user_rejected"),
                    outcome=Outcome(
                        ("content",),
                        ("cause",),
                        failed=(Sign("observation", ("error", "user_rejected")),),
                        loose="always",
                    ),
                ),
                Part(
                    (
                        *("run_ipython", "read", "write", "edit", "browse", "delegate", "mcp", "download"),
                        *("task_tracking", "success"),
                    ),
                    outcome=Outcome(
                        ("content",),
                        ("cause",),
                        failed=(Sign("extras.error", (True,)),),
                        succeeded=(Sign("observation", ("success",)),),
                    ),
                ),
                Part(("think", "null", "chat", "message", "recall", "condense", "agent_state_changed")),
                Part(("loop_detection",)),
            ),
        ),
    ),
    tools="args.tools",
    once="the model's answer in `tool_call_metadata`, which each of its events repeats",
)

OPENHANDS_1 = DeclaredFormat(
    name="openhands-1",
    about="OpenHands SDK 1.x: events with `kind`",
    role=("source",),
    roles={**_SOURCES, "hook": SYSTEM},
    marks=(Mark("", ("kind", "id", "timestamp", "source"), ("role", "type")),),
    places=(
        Place(
            "",
            "kind",
            (
                Part(
                    ("ActionEvent",),
                    Call(("tool_name",), ("tool_call.arguments",), ("tool_call_id",)),
                    words=("thought",),
                ),
                Part(
                    ("ObservationEvent",),
                    outcome=Outcome(
                        ("observation.content", "observation.output"),
                        ("tool_call_id",),
                        ("tool_name",),
                        exit_code=("observation.exit_code",),
                        failed=(Sign("observation.is_error", (True,)),),
                        open=(Sign("observation.exit_code", (-1,)),),
                    ),
                ),
                Part(
                    ("AgentErrorEvent",),
                    outcome=Outcome(
                        ("error",),
                        ("tool_call_id",),
                        ("tool_name",),
                        failed=(Sign("kind", ("AgentErrorEvent",)),),
                        loose="always",
                    ),
                ),
                Part(
                    ("UserRejectObservation",),
                    outcome=Outcome(
                        ("rejection_reason",),
                        ("tool_call_id",),
                        ("tool_name",),
                        failed=(Sign("kind", ("UserRejectObservation",)),),
                    ),
                ),
                Part(("MessageEvent",), words=("llm_message.content",)),
                Part(
                    (
                        *("SystemPromptEvent", "PauseEvent", "InterruptEvent", "Condensation", "CondensationRequest"),
                        *("CondensationSummaryEvent", "ConversationStateUpdateEvent", "TokenEvent"),
                        *("HookExecutionEvent", "LLMCompletionLogEvent", "SecurityAnalysisEvent"),
                        *("StreamingDeltaEvent", "ConversationErrorEvent"),
                    )
                ),
            ),
        ),
        Place("action", "kind", (Part(("FinishAction",), words=("message",)), Part(("*",)))),
    ),
    beside=("tool_call", "tools", "llm_message"),
    once="`StreamingDeltaEvent`, whose whole message follows",
)

SWE_AGENT = DeclaredFormat(
    name="swe-agent",
    about="SWE-agent's `.traj` files (1.x and 0.7)",
    role=("role", "=step"),
    roles={**_ROLES, "step": AGENT},
    marks=(
        Mark("", ("action", "observation", "response"), ("role", "source", "args")),
        Mark("", ("role", "message_type", "agent")),
    ),
    places=(
        Place("tool_calls", "", (Part(("",), Call(("function.name",), ("function.arguments",), ("id",))),)),
        Place(
            "",
            "",
            (Part(("",), Call(("=bash",), ("action",), free_text=True)),),
            unless="tool_calls",
            when=(Sign("action", ("", None), other=True),),
        ),
        Place(
            "",
            "",
            (
                Part(
                    ("",),
                    outcome=Outcome(
                        ("observation",), ("tool_call_ids.0",), when=(Sign("observation"),), loose="untied"
                    ),
                    words=("thought",),
                ),
            ),
        ),
        Place(
            "",
            "message_type",
            (
                Part(("observation",), outcome=Outcome(("content",), ("tool_call_ids.0",))),
                Part(("system_prompt", "demonstration", "action", "thought", "assistant", "user")),
            ),
            when=(Sign("role", ("user",), other=True),),
        ),
        Place(
            "",
            "message_type",
            (
                Part(("observation",), outcome=Outcome(("content",), loose="untied"), words=("content",)),
                Part(("system_prompt", "demonstration", "action", "thought", "assistant", "user")),
            ),
            when=(Sign("role", ("user",)),),
        ),
    ),
    again=(Sign("is_demo", (True,)), Sign("message_type", ("demonstration",))),
    beside=("query", "state", "extra_info", "tool_call_ids"),
    once="`history` and the `query` of each step, which repeat the `trajectory`; demonstrations say nothing",
)

MINI_SWE_AGENT = DeclaredFormat(
    name="mini-swe-agent",
    about="mini-swe-agent 2 (`mini-swe-agent-1.1`)",
    role=("role",),
    roles={**_ROLES, "exit": SYSTEM},
    marks=(
        Mark("", ("extra.actions",)),
        Mark("", ("extra.raw_output",)),
        Mark("", ("content", "extra"), (), (Sign("role", ("exit",)),)),
    ),
    places=(
        Place("extra.actions", "", (Part(("",), Call(("=bash",), ("command",), ("tool_call_id",), free_text=True)),)),
        Place(
            "",
            "",
            (
                Part(
                    ("",),
                    outcome=Outcome(
                        ("extra.raw_output",),
                        ("tool_call_id",),
                        exit_code=("extra.returncode",),
                    ),
                ),
            ),
            when=(Sign("extra.raw_output"),),
        ),
        Place("content", "type", (_TEXT, Part(("image_url",))), unless="extra.raw_output"),
    ),
    beside=("tool_calls",),
    once="`tool_calls` and the text of an action, which `extra.actions` repeats",
)

ATIF = DeclaredFormat(
    name="atif",
    about="Harbor's Agent Trajectory Interchange Format, `ATIF-v1.0` to `ATIF-v1.8`",
    role=("source",),
    roles={"user": USER, "agent": AGENT, "system": SYSTEM},
    marks=(Mark("", ("step_id", "source", "message")),),
    places=(
        Place("message", "type", (_TEXT, Part(("image", "audio")))),
        Place("tool_calls", "", (Part(("",), Call(("function_name",), ("arguments",), ("tool_call_id",))),)),
        Place(
            "observation.results",
            "",
            (
                Part(
                    ("",),
                    outcome=Outcome(
                        ("content",),
                        ("source_call_id",),
                        failed=(Sign("extra.tool_result_is_error", (True,)), Sign("extra.is_error", (True,))),
                        when=(Sign("content"), Sign("subagent_trajectory_ref")),
                        loose="untied",
                    ),
                ),
            ),
        ),
    ),
    again=(Sign("is_copied_context", (True,)),),
    once="steps with `is_copied_context`",
)

_RESULTS = ("ToolCallExecutionEvent", "FunctionExecutionResultMessage")
_REQUESTS = ("ToolCallRequestEvent", "AssistantMessage")
_SAID = ("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "UserMessage", "SystemMessage")
_AUTOGEN_SILENT = (
    *("ToolCallSummaryMessage", "ThoughtEvent", "UserInputRequestedEvent", "MemoryQueryEvent"),
    *("ModelClientStreamingChunkEvent", "SelectSpeakerEvent", "SelectorEvent"),
)
AUTOGEN = DeclaredFormat(
    name="autogen",
    about="AutoGen 0.4 to 0.7, its Magentic-One team included: messages and events of AgentChat, and model contexts",
    role=("source", "type"),
    roles={"user": USER, "SystemMessage": SYSTEM, "FunctionExecutionResultMessage": TOOL},
    other_roles=AGENT,
    marks=(
        Mark("", (), (), (Sign("type", (*_RESULTS, *_REQUESTS, *_SAID, *_AUTOGEN_SILENT)),)),
        Mark("", (), (), (Sign("type", ("CodeGenerationEvent", "CodeExecutionEvent")),)),
    ),
    places=(
        Place(
            "",
            "type",
            (
                Part((*_RESULTS, *_REQUESTS, *_SAID, *_AUTOGEN_SILENT, "CodeGenerationEvent")),
                Part(
                    ("CodeExecutionEvent",),
                    outcome=Outcome(
                        ("result.output",),
                        (),
                        ("=code_execution",),
                        exit_code=("result.exit_code",),
                    ),
                ),
            ),
        ),
        Place("content", "", (Part(("",), Call(("name",), ("arguments",), ("id",))),), when=(Sign("type", _REQUESTS),)),
        Place(
            "content",
            "",
            (
                Part(
                    ("",),
                    outcome=Outcome(
                        ("content",),
                        ("call_id",),
                        ("name",),
                        failed=(Sign("is_error", (True,)),),
                        succeeded=(Sign("is_error", (False,)),),
                    ),
                ),
            ),
            when=(Sign("type", _RESULTS),),
        ),
        Place(
            "code_blocks",
            "",
            (Part(("",), Call(("=code_execution",), ("code",), free_text=True)),),
            when=(Sign("type", ("CodeGenerationEvent",)),),
        ),
        Place("content", "", (Part(("",)),), when=(Sign("type", _SAID),)),
    ),
    beside=("tool_calls", "results", "context", "metadata", "models_usage"),
    once="`ToolCallSummaryMessage` and streamed chunks, which repeat calls, results and messages",
)

_TEAM = ("WebSurfer", "FileSurfer", "Assistant", "Coder", "ComputerTerminal", "Executor")
_MAGENTIC_ROLES = {
    **dict.fromkeys(_TEAM, AGENT),
    **dict.fromkeys(("ComputerTerminal", "Executor"), TOOL),
    "Orchestrator (thought)": SYSTEM,
    "Orchestrator (termination condition)": AGENT,
    **dict.fromkeys((f"Orchestrator (-> {name})" for name in _TEAM), SYSTEM),
}
MAGENTIC_ONE = DeclaredFormat(
    name="magentic-one",
    about="logs of Magentic-One that name its agents as roles",
    role=("role",),
    roles=_MAGENTIC_ROLES,
    marks=(Mark("", ("content",), (), (Sign("role", tuple(_MAGENTIC_ROLES)),)),),
    places=(Place("content", "", (Part(("",)),)),),
    prose="These agents tell of their actions in words alone; no call is on record.",
)

DECLARED = (
    *(AI_SDK_4, AI_SDK_5, BEDROCK, GEMINI, OPENTELEMETRY, INSPECT, OPENHANDS_0, OPENHANDS_1),
    *(SWE_AGENT, MINI_SWE_AGENT, ATIF, AUTOGEN),
)
"""The declared formats in the order in which they are tried; `MAGENTIC_ONE` is tried last of all formats."""
