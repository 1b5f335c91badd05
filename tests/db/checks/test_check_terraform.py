"""Plans that a real terraform applies, proposed and read back from its state: in PostgreSQL, and behind HTTP."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest
from psycopg.conninfo import conninfo_to_dict

from console.local import servers
from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal
from reviews.checks.development.terraform import TerraformCheck
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.support.outside import psql_user, terraform_folder

CHECK = TerraformCheck()
UNKNOWN = ": what it would change cannot be known in advance"
needs_program = pytest.mark.skipif(terraform_folder.PROGRAM is None, reason=terraform_folder.MISSING)


@pytest.fixture(scope="module")
def reader(template, run):
    url = run.postgres.url(servers.SUPERUSER, "postgres")
    with psql_user.opened(url, run.postgres.programs.postgres.parent) as found:
        yield url, found.reader


@pytest.fixture
def folder(reader, tmp_path, monkeypatch):
    """A folder whose state stands in PostgreSQL; nothing is applied yet."""
    url, info = reader
    with terraform_folder.schema_for_states(url, str(conninfo_to_dict(info)["user"])) as environment:
        yield entered(terraform_folder.opened(tmp_path / "infra", "pg", environment), monkeypatch)


def entered(found, monkeypatch):
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


def look(credential, arguments, **settings):
    return CHECK.read(
        system=SystemAccess("terraform", "terraform", settings, credential),
        verification={"lookup": {"effects": {"state": {"reads": "state"}}}},
        bindings={"sr": arguments},
        at=datetime.now(UTC),
        timeout_s=10,
    )


def shown(reader, effect):
    found = look({"url": reader[1]}, effect.arguments).effects[0]
    return found.present, found.fields["differing"]


@needs_program
def test_a_first_plan_is_proposed_as_its_changes_and_read_back_from_the_state(reader, folder):
    command = folder.plan()
    effect = read_command(command, folder.folder)
    asked = effect.arguments
    assert effect.tool == "terraform_apply"
    assert (asked["backend"], asked["lineage"], asked["serial"]) == ("pg", "-", 0)
    assert asked["place"] == f"{folder.environment['PG_SCHEMA_NAME']}/default"
    assert [(each["address"], each["action"]) for each in asked["changes"]] == [
        ("terraform_data.disk", "create"),
        ('terraform_data.rack["a b"]', "create"),
        ('terraform_data.rack["c"]', "create"),
        ("terraform_data.web", "create"),
        ("output.size", "create"),
    ]
    assert asked["changes"][3]["values"] == ['input = {"cores": 1.5, "size": "small", "word": "not secret"}']
    assert shown(reader, effect) == (False, 5)
    folder.run("apply", "next.tfplan")
    reading = look({"url": reader[1]}, asked)
    assert (reading.effects[0].present, reading.effects[0].fields["differing"]) == (True, 0)
    assert reading.effects[0].fields["resources"] == 4
    assert reading.consistency is Consistency.PRIMARY


@needs_program
def test_sensitive_values_are_neither_proposed_nor_returned_by_the_check(reader, folder):
    effect = read_command(folder.plan(), folder.folder)
    folder.run("apply", "next.tfplan")
    reading = look({"url": reader[1]}, effect.arguments)
    assert "a-secret-word" not in json.dumps(effect.arguments)
    assert "a-secret-word" not in repr(reading)
    assert effect.arguments["changes"][0] == {"address": "terraform_data.disk", "action": "create", "values": []}


@needs_program
def test_a_plan_that_destroys_has_its_own_tool_and_is_verified_only_as_a_whole(reader, folder):
    folder.plan()
    folder.run("apply", "next.tfplan")
    command = folder.plan("-var", "size=large", "-var", 'racks=["c"]', "-var", "word=another")
    effect = read_command(f"cd infra && {command}", folder.folder.parent)
    assert effect.tool == "terraform_destroy"
    asked = {each["address"]: each for each in effect.arguments["changes"]}
    assert {address: each["action"] for address, each in asked.items()} == {
        "terraform_data.disk": "replace",
        'terraform_data.rack["a b"]': "delete",
        "terraform_data.web": "update",
        "output.size": "update",
    }
    assert asked["output.size"]["values"] == ['value = "large"']
    assert effect.arguments["serial"] > 0
    assert shown(reader, effect) == (False, 4)
    folder.run("apply", "next.tfplan")
    assert shown(reader, effect) == (True, 0)
    folder.plan("-target=terraform_data.rack", "-var", "size=large", "-var", "word=another")
    folder.run("apply", "next.tfplan")
    assert shown(reader, effect) == (True, 1)


@needs_program
def test_a_changed_plan_is_another_proposal_and_a_plan_without_changes_is_not_proposed(folder):
    first = read_command(folder.plan(), folder.folder)
    other = read_command(folder.plan("-var", "size=large"), folder.folder)
    assert first.arguments["plan_sha256"] != other.arguments["plan_sha256"]
    folder.run("apply", "next.tfplan")
    assert read_command(folder.plan("-var", "size=large"), folder.folder) is None


@needs_program
def test_another_state_an_unlisted_place_and_another_backend_give_no_answer(reader, folder):
    effect = read_command(folder.plan(), folder.folder)
    folder.run("apply", "next.tfplan")
    read = {"url": reader[1]}
    with pytest.raises(CheckFailed, match="the plan was made for 0000"):
        look(read, effect.arguments | {"lineage": "0000"})
    with pytest.raises(CheckFailed, match="is not among the states that may be read"):
        look(read, effect.arguments, states=["other/default"])
    with pytest.raises(CheckFailed, match="kept by a backend s3; here only one of kind pg is read"):
        look(read, effect.arguments | {"backend": "s3"})
    with pytest.raises(CheckFailed, match="is not there") as gone:
        look(read, effect.arguments | {"lineage": "0000", "place": effect.arguments["place"] + "-2"})
    assert gone.value.retryable


@needs_program
def test_an_http_state_is_read_only_below_the_address_of_the_system(tmp_path, monkeypatch):
    with terraform_folder.served() as server:
        environment = server.environment("/states/live")
        folder = entered(terraform_folder.opened(tmp_path / "infra", "http", environment), monkeypatch)
        effect = read_command(folder.plan(), folder.folder)
        assert (effect.arguments["backend"], effect.arguments["place"]) == ("http", f"{server.url}/states/live")
        read = {"url": f"{server.url}/states", "user": "reader", "password": "word"}
        assert not look(read, effect.arguments).effects[0].present
        folder.run("apply", "next.tfplan")
        found = look(read, effect.arguments)
        assert (found.effects[0].present, found.effects[0].fields["differing"]) == (True, 0)
        with pytest.raises(CheckFailed, match="does not stand below"):
            look(read | {"url": f"{server.url}/elsewhere"}, effect.arguments)
        server.states["/states/live"] = b'{"serial": 9, "encrypted_data": "x"}'
        with pytest.raises(CheckFailed, match="no state in a form that can be read"):
            look(read, effect.arguments)


@pytest.mark.parametrize(
    "command",
    ["terraform plan -out=next.tfplan", "terraform -chdir=infra init", "tofu show -json next.tfplan", "terraform",
     "terraform -version", "terraform state list", "terraform workspace select live", "terraform apply -help",
     "terraform fmt -recursive && terraform validate", "echo terraform apply", "ls terraform/apply"],
)  # fmt: skip
def test_a_command_that_only_reads_is_not_held(command, tmp_path):
    assert read_command(command, tmp_path) is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "terraform apply",
            "Without a saved plan nobody could approve what will run. Only a saved plan can be applied",
        ),
        ("tofu apply -auto-approve", "Without a saved plan"),
        ("terraform apply none.tfplan", "Without a saved plan"),
        ("terraform apply a.tfplan b.tfplan", "Without a saved plan"),
        ("terraform apply -var size=large", f"Send it without -var{UNKNOWN}"),
        ("terraform apply -state=other a.tfplan", f"Send it without -state{UNKNOWN}"),
        ("terraform apply -lock=false a.tfplan", f"Send it without -lock{UNKNOWN}"),
        ("terraform destroy -auto-approve", "`terraform plan -destroy -out=FILE`, then `terraform apply FILE`"),
        ("terraform import terraform_data.web 7", "Not recognised: what `terraform import` changes"),
        ("terraform state rm terraform_data.web", "Not recognised: what `terraform state` changes"),
        ("terraform workspace delete live", "Not recognised: what `terraform workspace` changes"),
        ("terraform init -migrate-state", "Not recognised: what `terraform init` changes"),
        ("terraform test", "Not recognised: what `terraform test` changes"),
        ("terraform plan -out=a.tfplan && terraform apply a.tfplan", "Send `terraform` as a command of its own"),
        ("bash -c 'terraform apply -auto-approve'", "Send `terraform` as a command of its own"),
        ("terraform apply a.tfplan", "(terraform cannot say what this would change: Failed to read|could not say)"),
    ],
)
def test_a_command_that_cannot_be_held_is_refused(tmp_path, command, says):
    (tmp_path / "a.tfplan").write_text("no plan")
    with pytest.raises(Refusal, match=says):
        read_command(command, tmp_path)


def test_arguments_from_the_environment_are_checked_too(tmp_path, monkeypatch):
    (tmp_path / "a.tfplan").write_text("no plan")
    monkeypatch.setitem(os.environ, "TF_CLI_ARGS_apply", "-no-color -target=terraform_data.web")
    with pytest.raises(Refusal, match=f"Send it without -target{UNKNOWN}"):
        read_command("terraform apply a.tfplan", tmp_path)


def test_an_invalid_lookup_is_reported():
    faults = CHECK.validate({"lookup": {"effects": {"state": {"reads": "rows", "serial": "sr.serial"}}}})
    assert "lookup/effects/state/reads is state." in faults
    assert any("unknown field `serial`" in fault for fault in faults)
