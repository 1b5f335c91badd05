from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.transport.events import Event, EventParser

ONE = b'id: 1.a\nevent: action\ndata: {"state": "PENDING"}\n\n'


def _read(*chunks, feed=None):
    feed = feed or EventParser()
    return [event for chunk in chunks for event in feed.chunk(chunk)]


def test_an_event_has_its_kind_its_data_and_its_id():
    assert _read(ONE) == [Event("action", {"state": "PENDING"}, "1.a")]


def test_comments_and_events_without_data_are_passed_over():
    assert _read(b": connected\n\nevent: action\n\n: still here\n\n", ONE) == _read(ONE)


@given(st.lists(st.integers(0, len(ONE)), max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_the_events_do_not_depend_on_how_the_bytes_are_split(cuts, line_end):
    sent = ONE.replace(b"\n", line_end) + b": later" + line_end
    places = [0, *sorted(cuts), len(sent)]
    assert _read(*(sent[begin:end] for begin, end in pairwise(places))) == _read(ONE)


def test_data_of_several_lines_is_one_text_and_need_not_be_json():
    assert _read(b"data: a\ndata: b\n\n") == [Event("message", "a\nb", "")]


def test_separators_of_other_scripts_do_not_end_a_line():
    assert _read("data: a\u2028b\x85c\n\n".encode())[0].data == "a\u2028b\x85c"


def test_an_event_that_comes_again_is_reported_once():
    feed = EventParser()
    assert len(_read(ONE, ONE.replace(b"1.a", b"2.b"), ONE, feed=feed)) == 2


def test_an_event_without_an_id_is_never_taken_for_a_repeat():
    events = _read(ONE, b"data: 1\n\n", b"data: 2\n\n")
    assert [event.data for event in events[1:]] == [1, 2]
    assert {event.event_id for event in events} == {"1.a"}


def test_an_unfinished_event_on_a_broken_connection_is_dropped():
    feed = EventParser()
    _read(ONE, b"id: 2.b\ndata: half", feed=feed)
    feed.connected()
    assert _read(b"\n\n", feed=feed) == []
    assert feed.last_event_id == "1.a"


def test_the_reconnection_time_that_the_console_asks_for_is_kept():
    feed = EventParser()
    _read(b"retry: 1500\nretry: soon\n", feed=feed)
    assert feed.retry_s == 1.5
