"""Whether a list goes on after a page: said by the page, or unclear, and never taken for granted."""

from __future__ import annotations

import pytest

from reviews.systems.rules.paging import NextPage, Page, UnclearPage, next_page

FULL = [{"id": f"o-{number}"} for number in range(3)]


def after(paging, *, document=None, items=FULL, link="", number=0):
    return next_page(paging, Page(number=number, document=document or {}, items=items, link=link), "/id")


def test_a_list_without_paging_ends_with_its_only_page():
    assert after({"by": "none"}) is None


def test_a_full_page_is_followed_by_the_next_number_or_offset_and_a_shorter_one_is_the_last():
    for by, first, third in (("page", "2", "4"), ("offset", "3", "9")):
        paging = {"by": by, "parameter": "at", "size": 3}
        assert after(paging) == NextPage(parameters={"at": first})
        assert after(paging, number=2) == NextPage(parameters={"at": third})
        assert after(paging, items=FULL[:2]) is None


def test_a_page_that_says_whether_there_are_more_is_believed_whatever_its_length():
    paging = {"by": "offset", "parameter": "at", "size": 3, "more": "/more"}
    assert after(paging, document={"more": False}) is None
    assert after(paging, document={"more": True}, items=[]) == NextPage(parameters={"at": "3"})
    cursor = {"by": "cursor", "at": "/next", "parameter": "after", "last": "/done"}
    assert after(cursor, document={"done": True, "next": "x"}) is None
    assert after(cursor, document={"done": False, "next": "x"}) == NextPage(parameters={"after": "x"})


@pytest.mark.parametrize("more", [None, 0, "false", []])
def test_a_page_that_does_not_say_whether_there_are_more_is_unclear(more):
    for paging in (
        {"by": "last_id", "parameter": "after", "more": "/more"},
        {"by": "cursor", "parameter": "after", "at": "/next", "last": "/more"},
    ):
        with pytest.raises(UnclearPage):
            after(paging, document={} if more is None else {"more": more})


def test_a_page_that_says_that_there_are_more_and_not_where_is_unclear():
    for paging in (
        {"by": "last_id", "parameter": "after", "more": "/more"},
        {"by": "cursor", "parameter": "after", "at": "/next", "more": "/more"},
    ):
        with pytest.raises(UnclearPage):
            after(paging, document={"more": True}, items=[])


def test_a_cursor_or_an_address_that_is_not_there_ends_the_list():
    for document in ({}, {"next": None}, {"next": ""}):
        assert after({"by": "cursor", "at": "/next", "parameter": "after"}, document=document) is None
        assert after({"by": "next", "at": "/next"}, document=document) is None
    assert after({"by": "next", "at": "/next"}, document={"next": "/v1?page=2"}) == NextPage(link="/v1?page=2")


def test_the_last_id_of_a_page_is_the_place_of_the_next():
    paging = {"by": "last_id", "parameter": "after", "more": "/more"}
    assert after(paging, document={"more": True}) == NextPage(parameters={"after": "o-2"})


@pytest.mark.parametrize(
    "link",
    [
        '<https://a.example/x?after=2>; rel="next"',
        '<https://a.example/x>; rel="self", <https://a.example/x?after=2>; rel="next"',
        "<https://a.example/x?after=2>; rel=next",
        '<https://a.example/x?after=2>; title="b"; rel="next", <https://a.example/x>; rel="prev"',
    ],
)
def test_a_link_header_names_the_next_page(link):
    assert after({"by": "link", "size": 3}, link=link) == NextPage(link="https://a.example/x?after=2")


def test_a_page_without_a_link_is_the_last_if_it_is_not_full():
    paging = {"by": "link", "size": 3}
    assert after(paging, items=FULL[:2], link='<https://a.example/x>; rel="self"') is None
    with pytest.raises(UnclearPage):
        after(paging)
