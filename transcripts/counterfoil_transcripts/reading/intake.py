"""From files to conversations, one at a time.

1. Whatever cannot be read becomes a `Fault` that names file, conversation and path; the rest goes on. Of one file no
   more than `MOST_FAULTS` are named, the others counted.
2. Messages that stand on lines of their own are gathered by the session that each names; those that name none belong
   to one conversation per file. At most `OPEN` sessions are held at a time, and none beyond `LONGEST` messages.
3. A message inside a conversation that has no known shape is a fault of that place, and its neighbours are read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from counterfoil_transcripts.reading import scanning
from counterfoil_transcripts.reading.formats import claude_code, spans, trajectories
from counterfoil_transcripts.reading.formats.content import canonical_bytes, name_of
from counterfoil_transcripts.reading.formats.declared import MAGENTIC_ONE
from counterfoil_transcripts.reading.formats.detect import dominant_format, format_of, is_message
from counterfoil_transcripts.reading.records import Transcript, TranscriptAnswer, TranscriptFault, TranscriptTurn
from counterfoil_transcripts.reading.scanning import ObjectRemainder, ScannedValue, UnreadablePart

DEPTH = 4
LISTS = (
    *("messages", "traj", "trajectory", "conversations", "conversation", "chat_history", "history", "turns"),
    *("items", "events", "transcript", "dialogue", "chat", "log", "message_history", "input", "contents", "steps"),
)
_INNER = (
    *("values", "channel_values", "checkpoint", "state", "data", "request", "body", "sample", "record", "trace"),
    *("conversation", "thread", "inputs", "run", "result", "log", "json", "payload", "kwargs"),
)
_IDS = (
    "conversation_id",
    "session_id",
    "sessionId",
    "thread_id",
    "id",
    "task_id",
    "trace_id",
    "run_id",
    "trajectory_id",
    "instance_id",
    "name",
)
_WRAPPERS = ("message", "data", "payload", "msg", "body", "record", "event", "rpc", "raw", "content", "item")


@dataclass(frozen=True, slots=True)
class MessageList:
    """The messages of one conversation as recorded, its id if it has one, and the tools offered in it."""

    messages: list[Any]
    id: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()


def find_messages(value: object) -> MessageList | None:
    """The conversation in a value, or None when it holds none."""
    if isinstance(value, list):
        return MessageList(value) if _is_list_of_messages(value) else None
    if not isinstance(value, dict) or is_message(value) or _attempts(value):
        return None
    found = _messages(value, 0) or _response(value)
    return None if found is None else MessageList(found, conversation_id_of(value), tool_definitions_of(value))


def find_conversations(value: object) -> list[Any] | None:
    """The conversations in a list of them; None if it is not such a list."""
    if not isinstance(value, list) or not value or _is_list_of_messages(value):
        return None
    return value if any(find_messages(one) is not None for one in value[:20]) else None


def unwrap_message(item: object) -> Any:
    """The message inside a line with a time and a direction; the item itself if it is a message."""
    if not isinstance(item, dict) or is_message(item):
        return item
    for name in _WRAPPERS:
        inner = _parse_nested(item.get(name))
        if is_message(inner):
            return inner
    return item


def session_id_of(item: object) -> str:
    """The session that a line belongs to; empty if it names none."""
    if not isinstance(item, dict):
        return ""
    if claude_code.fits(item):
        return claude_code.session_of(item)
    return next((name_of(item[name]) for name in _IDS[:4] if item.get(name)), "")


def conversation_id_of(value: Mapping[str, Any]) -> str:
    """The id that a conversation carries; a trial of one task keeps both numbers."""
    found = next((name_of(value[name]) for name in _IDS if name_of(value.get(name))), "")
    trial = name_of(value.get("trial"))
    return f"{found} (trial {trial})" if found and trial else found


def tool_definitions_of(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The tool definitions beside the messages, as a list or as a JSON text."""
    for name in ("tools", "functions", "available_tools", "tool_definitions"):
        listed = _parse_nested(value.get(name))
        if isinstance(listed, list):
            return tuple(tool for one in listed if isinstance(one, dict) for tool in tool_definitions_in(one))
    inner = (value.get(name) for name in ("request", "body", "info", "state", "toolConfig", "config", "agent"))
    return next((found for one in inner if isinstance(one, dict) and (found := tool_definitions_of(one))), ())


def tool_definitions_in(listed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The definitions in one entry of a list of tools: Bedrock wraps each, Gemini lists several in one."""
    spec = listed.get("toolSpec")
    declared = listed.get("functionDeclarations", listed.get("function_declarations"))
    if isinstance(spec, dict):
        schema = spec.get("inputSchema")
        yield {**spec, "inputSchema": schema.get("json") if isinstance(schema, dict) else schema}
    elif isinstance(declared, list):
        for one in declared:
            if isinstance(one, dict):
                schema = one.get("parametersJsonSchema", one.get("parameters_json_schema", one.get("parameters")))
                about = one.get("description", "")
                yield {"name": one.get("name"), "description": about, "parameters": _lower_types(schema or {})}
    else:
        yield listed


def _lower_types(schema: Any) -> Any:
    """A schema with its types in lower case, which Gemini writes in capitals."""
    if isinstance(schema, list):
        return [_lower_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: one.lower() if name == "type" and isinstance(one, str) else _lower_types(one)
        for name, one in schema.items()
    }


def _messages(value: dict[str, Any], depth: int) -> list[Any] | None:
    for name in LISTS:
        listed = _parse_nested(value.get(name))
        if isinstance(listed, list) and _is_list_of_messages(listed):
            if name == "trajectory" and isinstance(value.get("history"), list):
                listed = [*listed, *value["history"]]
            return [*trajectories.with_attachments(value, listed), *_model_answer(value)]
    if depth < DEPTH:
        for name in _INNER:
            inner = value.get(name)
            found = _messages(inner, depth + 1) if isinstance(inner, dict) and not is_message(inner) else None
            if found is not None:
                return [*found, *_model_answer(value)]
    return None


def _model_answer(value: dict[str, Any]) -> list[Any]:
    """The model's answer to the messages, if a request and its response were recorded together."""
    response = value.get("response", value)
    if not isinstance(response, dict):
        return []
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return [choices[0].get("message")] if is_message(choices[0].get("message")) else []
    if isinstance(output, list) and _is_list_of_messages(output):
        return output
    candidates = response.get("candidates")
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        return [candidates[0]["content"]] if is_message(candidates[0].get("content")) else []
    if isinstance(output, dict) and is_message(output.get("message")):
        return [output["message"]]
    return [response] if response is not value and is_message(response) else []


def _attempts(value: Mapping[str, Any]) -> bool:
    """Return whether an object has the attempts of a run, the chosen one of which it repeats."""
    listed = value.get("attempts")
    return isinstance(listed, list) and any(isinstance(one, dict) and "trajectory" in one for one in listed)


def _response(value: dict[str, Any]) -> list[Any] | None:
    """The input text and output items in one object of OpenAI's Responses API."""
    asked, output = value.get("input"), value.get("output")
    if not isinstance(output, list) or not _is_list_of_messages(output):
        return None
    return [{"role": "user", "content": asked}, *output] if isinstance(asked, str) else output


def _is_list_of_messages(value: list[Any]) -> bool:
    return any(is_message(one) or is_message(unwrap_message(one)) for one in value[:5])


def _parse_nested(value: Any) -> Any:
    """Return a value that was written as a text of JSON inside JSON, parsed; anything else unchanged."""
    if not isinstance(value, str) or value[:1] not in {"{", "["}:
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value


OPEN = 256
LONGEST = 100_000
MOST_FAULTS = 50
UNKNOWN = "This is no message and no conversation of a known format"

Read = Transcript | TranscriptFault


@dataclass
class _Group:
    """Messages of one session on separate lines."""

    id: str
    path: str
    messages: list[Any] = field(default_factory=list)
    rows: set[tuple[str, bytes]] = field(default_factory=set)


@dataclass
class _Intake:
    """The state while one file is read."""

    name: str
    groups: dict[str, _Group] = field(default_factory=dict)
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    recognised: set[str] = field(default_factory=set)
    faults: int = 0
    strangers: dict[str, tuple[int, str]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    """The sessions of which lines could not be read; "" stands for all."""
    session: str = ""
    """The session that the lines after a head belong to, if they name none."""

    def item(self, item: ScannedValue) -> Iterator[Read]:
        value = item.value
        if item.member in {"tools", "functions"} and isinstance(value, dict) and not is_message(value):
            self.tools.extend(tool_definitions_in(value))
            return
        recorded = spans.spans_of(value)
        if recorded is not None:
            yield from self._record(recorded, item)
            return
        head = trajectories.session_head(value)
        if head is not None:
            self.session = head
        if head is not None or trajectories.is_state_line(value):
            self.recognised.add(item.member)
            return
        message = unwrap_message(value)
        if claude_code.says_nothing(message):
            self.recognised.add(item.member)
            return
        if is_message(message):
            yield from self._message(message, session_id_of(value) or self.session, item)
            return
        if isinstance(value, list) and value and all(_is_rpc(one) for one in value):
            for one in value:
                yield from self._message(one, "", item)
            return
        yield from self._conversations(value, item)

    def _record(self, recorded: list[spans.Span], item: ScannedValue) -> Iterator[Read]:
        self.recognised.add(item.member)
        for span in recorded:
            yield from self._message(span, span.key, item)

    def _conversations(self, value: Any, item: ScannedValue) -> Iterator[Read]:
        found = find_messages(value)
        if found is not None:
            self.recognised.add(item.member)
            newer = yield from self._version(value, item.path)
            yield build_conversation(self.name, found, item.path, unread=newer)
            yield from self._subagents(value, item)
            return
        inner = find_conversations(value) or _inside(value)
        if inner is None:
            yield from self._stranger(item)
            return
        for number, one in enumerate(inner):
            yield from self._conversations(one, ScannedValue(f"{item.path}[{number}]", one, item.member))

    def _version(self, members: Any, path: str) -> Generator[Read, None, bool]:
        """Name a version that is not read; whether there is one."""
        reason = trajectories.unknown_version(members) if isinstance(members, dict) else ""
        if reason:
            yield TranscriptFault(self.name, conversation_id_of(members), path, reason, passed_over=True)
        return bool(reason)

    def _subagents(self, value: Any, item: ScannedValue) -> Iterator[Read]:
        """The conversations of subagents that are inside the one that called them."""
        listed = value.get("subagent_trajectories") if isinstance(value, dict) else None
        for number, one in enumerate(listed if isinstance(listed, list) else ()):
            path = f"{item.path}.subagent_trajectories[{number}]"
            yield from self._conversations(one, ScannedValue(path, one, item.member))

    def _message(self, message: Any, session: str, item: ScannedValue) -> Iterator[Read]:
        self.recognised.add(item.member)
        group = self.groups.get(session)
        if group is None:
            if len(self.groups) >= OPEN:
                yield from self._close_group(next(iter(self.groups)))
            group = self.groups[session] = _Group(session, item.path)
        if isinstance(message, dict) and claude_code.fits(message) and isinstance(message.get("uuid"), str):
            row = blake2b(canonical_bytes(message.get("message", message))).digest()
            if (message["uuid"], row) in group.rows:
                return  # a session that goes on in another file repeats its lines
            group.rows.add((message["uuid"], row))
        group.messages.append(message)
        if len(group.messages) >= LONGEST:
            yield from self._close_group(session)

    def _close_group(self, session: str) -> Iterator[Read]:
        group = self.groups.pop(session)
        unread = bool(self.unread if not session else self.unread & {"", session})
        recorded = [one for one in group.messages if isinstance(one, spans.Span)]
        if recorded:
            yield from self._spans(recorded, group, unread)
            return
        found = MessageList(group.messages, group.id, tuple(self.tools))
        yield build_conversation(self.name, found, group.path, unread=unread)

    def _spans(self, recorded: list[spans.Span], group: _Group, unread: bool) -> Iterator[Read]:
        """The conversations in the spans of a group, and what was not read of them."""
        for reason in sorted({one.fault for one in recorded} - {""}):
            count = sum(one.fault == reason for one in recorded)
            more = f"; {count - 1} more like it" if count > 1 else ""
            yield TranscriptFault(self.name, group.id, group.path, f"{reason}{more}.", passed_over=True)
        unread = unread or any(one.fault for one in recorded)
        for number, thread in enumerate(spans.threads_of([one for one in recorded if not one.fault])):
            named = f"{group.id} ({number + 1})" if number else group.id
            found = MessageList(thread.messages, named, tuple(thread.tools))
            yield build_conversation(self.name, found, group.path, unread=unread)

    def rest(self, rest: ObjectRemainder) -> Iterator[Read]:
        recorded = spans.spans_of(rest.members)
        if recorded is not None:
            yield from self._record(recorded, ScannedValue("$", rest.members))
            return
        self.tools.extend(one for one in tool_definitions_of(rest.members) if one not in self.tools)
        named = conversation_id_of(rest.members)
        newer = yield from self._version(rest.members, "$")
        if newer:
            self.unread.add("")
        if "attempts" in self.recognised:
            self.groups.pop("", None)  # the chosen attempt once more
        for session, group in list(self.groups.items()):
            if isinstance(group.messages[0], spans.Span):
                continue  # the other spans of a trace may be in another object
            group.id = group.id or named
            yield from self._close_group(session)
        if not self.recognised:
            self.strangers.clear()
            yield from self._conversations(rest.members, ScannedValue("$", rest.members))
        self.tools.clear()

    def end(self) -> Iterator[Read]:
        for session in list(self.groups):
            yield from self._close_group(session)
        for member, (count, path) in self.strangers.items():
            # What stands beside the conversations in an array of its own may be anything.
            if not self.recognised or member in self.recognised:
                more = f"; {count - 1} more like it" if count > 1 else ""
                yield TranscriptFault(self.name, "", path, f"{UNKNOWN}{more}.", passed_over=True)

    def _stranger(self, item: ScannedValue) -> Iterator[Read]:
        """An item of unknown shape: named once per array, since items beside conversations may be anything."""
        count, path = self.strangers.get(item.member, (0, item.path))
        self.strangers[item.member] = (count + 1, path)
        if not item.member:
            self.unread.add(session_id_of(item.value))
        return iter(())

    def broken(self, one: UnreadablePart) -> Iterator[Read]:
        self.faults += 1
        self.unread.add("")
        if self.faults <= MOST_FAULTS:
            yield TranscriptFault(self.name, "", one.path, one.reason)
        elif self.faults == MOST_FAULTS + 1:
            yield TranscriptFault(
                self.name, "", one.path, "More of the file could not be read; it is not listed further."
            )


def read_conversations(file: Path, *, moved: Callable[[int], None] = lambda _: None) -> Iterator[Read]:
    """The conversations of a file in its order, and its unread parts."""
    intake = _Intake(str(file))
    for one in scanning.scan_file(file, moved=moved):
        if isinstance(one, ScannedValue):
            yield from intake.item(one)
        elif isinstance(one, ObjectRemainder):
            yield from intake.rest(one)
        else:
            yield from intake.broken(one)
    yield from intake.end()


def build_conversation(file: str, found: MessageList, path: str, *, unread: bool = False) -> Transcript:
    """The conversation in recorded messages; `unread`: lines beside them could not be read."""
    turns: list[TranscriptTurn] = []
    faults: list[TranscriptFault] = []
    names: set[str] = set()
    failures = trajectories.stated_failures(found.messages)
    for number, raw in enumerate(trajectories.once(found.messages)):
        message, known = raw, format_of(raw)
        if known is None:
            message = unwrap_message(raw)
            known = format_of(message)
        if known is None:
            where = f"{path}[{number}]"
            faults.append(TranscriptFault(file, found.id, where, _unknown_shape(message), passed_over=True))
            continue
        names.add(known.name)
        turn, unread_parts = known.read(message, number)
        if failures and turn.answers:
            turn = replace(turn, answers=tuple(_mark_failure(one, failures) for one in turn.answers))
        turns.append(turn)
        for place, kind in unread_parts:
            reason = f"Not read: {kind}. It may be a call or an answer."
            faults.append(TranscriptFault(file, found.id, f"{path}[{number}]{place}", reason, passed_over=True))
    if MAGENTIC_ONE.name in names:
        faults.append(TranscriptFault(file, found.id, path, MAGENTIC_ONE.prose, passed_over=True))
    tools = (*found.tools, *(tool for turn in turns for tool in turn.tools))
    if all("provider" in tool for tool in tools):
        tools = ()  # nobody wrote down what else was offered
    return Transcript(
        file,
        found.id or path,
        path,
        dominant_format(names),
        tuple(turns),
        tools,
        tuple(faults[:MOST_FAULTS]),
        unread or bool(faults),
    )


def _mark_failure(answer: TranscriptAnswer, failures: Mapping[str, bool]) -> TranscriptAnswer:
    """An answer with the failure that another line of the recording states of its call."""
    failed = failures.get(answer.call_id) if answer.failed is None else None
    return answer if failed is None else replace(answer, failed=failed)


def _unknown_shape(message: Any) -> str:
    if not isinstance(message, dict):
        return f"A message is an object, and this is {type(message).__name__}."
    names = ", ".join(sorted(str(one)[:40] for one in message)[:8])
    if isinstance(message.get("type"), str):
        return f"A message of the type {message['type'][:60]} with the fields {names} has no known shape."
    return f"A message with the fields {names or '(none)'} has no known shape."


def _is_rpc(value: Any) -> bool:
    return isinstance(value, dict) and value.get("jsonrpc") == "2.0"


def _inside(value: Any) -> list[Any] | None:
    """The conversations in an object with a list of them under any name."""
    if not isinstance(value, dict):
        return None
    return next((found for one in value.values() if (found := find_conversations(one)) is not None), None)
