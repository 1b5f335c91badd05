"""Files under a root, looked up on a real disk: links, traversal, races, and what is merely not there."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime

import pytest

from counterfoil.coding_agents.programs.files import machine
from reviews.checks import filesystems
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHECK = check_for("filesystems")


@pytest.fixture
def root(tmp_path):
    """A root with one document and one folder, beside a secret that lies outside of it."""
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "root" / "reports").mkdir(parents=True)
    (tmp_path / "root" / "reports" / "q1.txt").write_text("figures")
    return tmp_path / "root"


def look(root, path, *, settings=None, narrowed=None, extensions=None, sr=None, **part):
    verification = {"lookup": {"effects": {"file": {"path": "sr.path", **part}}}}
    if narrowed is not None:
        verification["root"] = narrowed
    if extensions is not None:
        verification["allow_extensions"] = extensions
    return CHECK.read(
        system=SystemAccess("documents", "filesystems", {"root": str(root)} | (settings or {})),
        verification=verification,
        bindings={"sr": {"path": path} | (sr or {})},
        at=AT,
        timeout_s=5,
    )


def effect(*args, **kwargs):
    return look(*args, **kwargs).effects[0]


@pytest.mark.req("R-CP-02", "R-VD-02")
def test_a_file_is_read_with_size_digest_and_mode(root):
    found = look(root, "reports/q1.txt")
    (one,) = found.effects
    assert (one.present, one.count) == (True, 1)
    assert one.fields["size"] == 7
    assert one.fields["sha256"] == hashlib.sha256(b"figures").hexdigest()
    assert one.fields["mode"] == f"{(root / 'reports/q1.txt').stat().st_mode & 0o7777:04o}"
    assert one.fields["kind"] == "file"
    assert found.consistency is Consistency.PRIMARY
    assert found.freshness.startswith("mtime 20")
    assert found.indicators == ()
    assert found.observed_at == AT


@pytest.mark.req("R-CP-02", "R-CP-16")
def test_a_wanted_file_that_is_missing_is_reported(root):
    found = look(root, "reports/q2.txt")
    assert found.effects[0].present is False
    assert found.indicators == ("file_missing",)


def test_a_deleted_file_is_the_effect_of_a_deletion(root):
    assert effect(root, "reports/q1.txt", expect="absent").present is False
    (root / "reports/q1.txt").unlink()
    found = look(root, "reports/q1.txt", expect="absent")
    assert (found.effects[0].present, found.effects[0].count) == (True, 1)
    assert found.indicators == ()


@pytest.mark.req("R-VD-02", "R-CP-02")
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "reports/../../secret.txt",
        "nowhere/../../secret.txt",
        "reports/q1.txt/../../../secret.txt",
        "/etc/passwd",
        "/",
        "..",
    ],
)
def test_a_path_that_climbs_above_the_root_is_an_escape(root, path):
    found = look(root, path)
    assert found.effects[0].present is None
    assert found.indicators == ("path_escapes_sandbox",)


def test_dots_that_stay_inside_the_root_are_allowed(root):
    assert effect(root, "./reports/./../reports//q1.txt").fields["path"] == "reports/q1.txt"
    assert effect(root, f"{root}/reports/q1.txt").present


@pytest.mark.req("R-VD-02", "R-CP-02")
@pytest.mark.parametrize(
    ("link", "to"),
    [
        ("out", "../secret.txt"),
        ("out", "/etc/passwd"),
        ("folder", ".."),
        ("reports/deep", "../../secret.txt"),
    ],
)
def test_a_link_that_leaves_the_root_is_an_escape(root, link, to):
    (root / link).symlink_to(to)
    path = f"{link}/secret.txt" if link == "folder" else link
    assert look(root, path).indicators == ("path_escapes_sandbox",)


def test_a_link_inside_the_root_is_followed(root):
    (root / "latest").symlink_to("reports")
    (root / "reports" / "newest.txt").symlink_to("../reports/q1.txt")
    (root / "reports" / "full.txt").symlink_to(root / "reports" / "q1.txt")
    for path in ("latest/q1.txt", "reports/newest.txt", "latest/newest.txt", "latest/full.txt"):
        found = effect(root, path)
        assert found.present
        assert found.fields["path"] == "reports/q1.txt"


def test_links_in_a_circle_give_no_answer(root):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(CheckFailed, match="levels of symbolic links"):
        look(root, "a")


def test_a_dangling_link_is_absent(root):
    (root / "dangling").symlink_to("reports/gone.txt")
    assert effect(root, "dangling").present is False


def test_a_path_below_a_regular_file_is_absent(root):
    assert effect(root, "reports/q1.txt/more").present is False


@pytest.mark.parametrize("name", ["a folder", "pipe"])
def test_a_folder_or_a_pipe_has_no_content(root, name):
    (root / "a folder").mkdir()
    os.mkfifo(root / "pipe")
    found = effect(root, name)
    assert found.present
    assert "sha256" not in found.fields


class TestExpectations:
    SHA = hashlib.sha256(b"figures").hexdigest()

    @pytest.mark.req("R-CP-02")
    @pytest.mark.parametrize(
        ("part", "fired"),
        [
            ({"sha256": "sr.sha"}, ()),
            ({"sha256": "'00'"}, ("hash_mismatch",)),
            ({"size": "7"}, ()),
            ({"size": "8"}, ("hash_mismatch",)),
            ({"mode": "'0640'"}, ()),
            ({"mode": "'0600'"}, ("unexpected_permission_mode",)),
        ],
    )
    def test_content_and_mode_are_compared(self, root, part, fired):
        (root / "reports/q1.txt").chmod(0o640)
        assert look(root, "reports/q1.txt", sr={"sha": self.SHA}, **part).indicators == fired

    @pytest.mark.req("R-CP-02")
    def test_only_listed_extensions_are_permitted(self, root):
        (root / "run.sh").write_text("echo")
        assert look(root, "run.sh", extensions=[".txt"]).indicators == ("unauthorized_extension",)
        assert look(root, "reports/q1.txt", extensions=[".txt"]).indicators == ()

    @pytest.mark.req("R-CP-02")
    def test_a_deletion_under_a_protected_folder_raises_an_indicator(self, root):
        protected = {"protected": ["reports"]}
        found = look(root, "reports/gone.txt", settings=protected, expect="absent")
        assert found.indicators == ("destructive_operation_outside_policy",)
        assert look(root, "gone.txt", settings=protected, expect="absent").indicators == ()


class TestRoots:
    """A root that is not there must never read as "deleted"."""

    def test_a_missing_root_is_an_outage(self, tmp_path):
        with pytest.raises(CheckFailed) as failed:
            look(tmp_path / "unmounted", "q1.txt", expect="absent")
        assert failed.value.retryable

    def test_a_root_without_its_marker_is_an_outage(self, root):
        settings = {"marker": ".mounted"}
        with pytest.raises(CheckFailed) as failed:
            look(root, "gone.txt", settings=settings, expect="absent")
        assert failed.value.retryable
        (root / ".mounted").touch()
        assert effect(root, "gone.txt", settings=settings, expect="absent").present

    def test_a_contract_may_narrow_the_root(self, root):
        assert effect(root, "q1.txt", narrowed="reports").present
        assert look(root, "../reports/q1.txt", narrowed="reports").indicators == ("path_escapes_sandbox",)

    @pytest.mark.parametrize("narrowed", ["..", "/etc", "reports/../.."])
    def test_a_contract_cannot_widen_the_root(self, root, narrowed):
        with pytest.raises(CheckFailed, match="outside"):
            look(root, "q1.txt", narrowed=narrowed)

    def test_a_narrowed_root_may_not_be_a_link(self, root):
        (root / "elsewhere").symlink_to("/etc")
        with pytest.raises(CheckFailed):
            look(root, "passwd", narrowed="elsewhere")

    def test_a_relative_root_is_refused(self):
        with pytest.raises(CheckFailed) as failed:
            look("relative", "x")
        assert not failed.value.retryable


class TestRaces:
    def test_a_file_that_is_replaced_while_it_is_read_gives_no_answer(self, root, monkeypatch):
        named = root / "reports/q1.txt"
        really = os.open

        def replaced(path, flags, **kwargs):
            if path == "q1.txt":
                (root / "other").write_text("another")
                (root / "other").rename(named)
            return really(path, flags, **kwargs)

        monkeypatch.setattr(os, "open", replaced)
        with pytest.raises(CheckFailed, match="replaced") as failed:
            look(root, "reports/q1.txt")
        assert failed.value.retryable

    def test_a_file_that_grows_while_it_is_read_gives_no_answer(self, root, monkeypatch):
        really = os.read

        def grown(file, size):
            with (root / "reports/q1.txt").open("a") as more:
                more.write("!")
            monkeypatch.setattr(os, "read", really)
            return really(file, size)

        monkeypatch.setattr(os, "read", grown)
        with pytest.raises(CheckFailed, match="changed"):
            look(root, "reports/q1.txt")

    def test_a_folder_that_is_replaced_by_a_link_while_it_is_read_is_not_followed(self, root, monkeypatch):
        really = os.open

        def swapped(path, flags, **kwargs):
            if path == "reports":
                (root / "reports").rename(root / "moved")
                (root / "reports").symlink_to("/etc")
            return really(path, flags, **kwargs)

        monkeypatch.setattr(os, "open", swapped)
        with pytest.raises(CheckFailed):
            look(root, "reports/passwd")


@pytest.mark.req("R-VD-09")
def test_a_network_file_system_has_undeclared_consistency(root, monkeypatch):
    monkeypatch.setattr(filesystems, "_kind_of_filesystem", lambda base: "nfs4")
    assert look(root, "reports/q1.txt").consistency is Consistency.UNDECLARED
    declared = look(root, "reports/q1.txt", settings={"consistency": "STRONG"})
    assert declared.consistency is Consistency.STRONG


def test_the_kind_of_a_file_system_is_determined(root):
    folder = os.open(root, os.O_RDONLY)
    try:
        assert filesystems._kind_of_filesystem(folder)
    finally:
        os.close(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_path_gives_no_answer(root):
    (root / "reports").chmod(0)
    with pytest.raises(CheckFailed) as failed:
        look(root, "reports/q1.txt")
    (root / "reports").chmod(0o755)
    assert not failed.value.retryable


def test_a_path_without_a_value_gives_no_answer(root):
    with pytest.raises(CheckFailed, match="filled in"):
        look(root, None)


class TestAtRegistration:
    def faults(self, **part):
        return CHECK.validate({"lookup": {"effects": {"file": part}}})

    def test_a_valid_lookup_is_accepted(self):
        assert self.faults(path="sr.path", expect="absent", sha256="sr.sha", mode="'0644'") == []

    @pytest.mark.parametrize(
        "part",
        [
            {},
            {"path": 3},
            {"path": "sa.path"},
            {"path": "sr."},
            {"path": "sr.path", "expect": "maybe"},
            {"path": "sr.path", "sha": "sr.sha"},
            {"path": "sr.path", "mode": "[1]"},
        ],
    )
    def test_an_invalid_lookup_is_reported(self, part):
        assert self.faults(**part)

    def test_the_fields_of_a_file_are_typed(self):
        schema = CHECK.typed_fields({"effects": {"file": {"path": "sr.path"}}})
        assert {"sha256", "size", "exists", "effects"} <= set(schema["properties"])
        assert "sha256" in schema["properties"]["effects"]["properties"]["file"]["properties"]


def test_a_file_on_another_machine_gives_no_answer(root):
    named = {"machine": "sr.machine"}
    own = machine()
    assert effect(root, "reports/q1.txt", sr={"machine": own}, **named).present
    with pytest.raises(CheckFailed, match="on another machine") as failed:
        look(root, "reports/none.txt", sr={"machine": "0" * 32}, expect="absent", **named)
    assert not failed.value.retryable
    settings = {"machine": "build-7"}
    assert effect(root, "reports/q1.txt", sr={"machine": "build-7"}, settings=settings, **named).present
    with pytest.raises(CheckFailed, match="on another machine"):
        look(root, "reports/q1.txt", sr={"machine": own}, settings=settings, **named)
