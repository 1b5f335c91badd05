"""`python -m example`: a small real shop whose agent and executor use Counterfoil.

setup      create the shop's schema, roles, stream and folder
register   register its systems, contracts and agent with the console
executor   execute approved actions  consumer   read the shop's events
agent      send scripted work        scenario   send one case and print what the gate answered
cases      list the cases

Environment: COUNTERFOIL_URL, COUNTERFOIL_AGENT_KEY, COUNTERFOIL_EXECUTOR_KEY,
COUNTERFOIL_OPERATOR_KEY, SHOP_ADMIN_URL (setup only), SHOP_DATABASE_URL (the writer),
SHOP_READER_URL (setup only: the verifier's role), SHOP_VALKEY_URL, SHOP_FOLDER,
COUNTERFOIL_EXAMPLE_STATE; COUNTERFOIL_ISSUER where the console is reached by another address than its own;
COUNTERFOIL_EXAMPLE_TIMEOUT_S, how long one attempt may take (5).
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable

from counterfoil.problems import Problem, Unreachable
from example import agent, consumer, environment, executor, registration, shop
from example.cases import BY_NAME


def main() -> None:
    """Run one of the example's programs."""
    options = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        PROGRAMS[options.program](options)
    except (Problem, Unreachable) as fault:
        raise SystemExit(f"The console refused or did not answer: {fault}") from fault


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m example",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    programs = parser.add_subparsers(dest="program", required=True)
    for name in PROGRAMS:
        programs.add_parser(name)
    scenario = programs.choices["scenario"]
    scenario.add_argument("--case", required=True, choices=sorted(BY_NAME))
    scenario.add_argument(
        "--approved",
        action="store_true",
        help="send refunds through issue_refund, which waits for a person",
    )
    programs.choices["cases"].add_argument("--json", action="store_true")
    return parser


def _set_up(_: argparse.Namespace) -> None:
    shop.set_up(
        admin_url=environment.setting("SHOP_ADMIN_URL"),
        writer_url=environment.setting("SHOP_DATABASE_URL"),
        reader_url=environment.setting("SHOP_READER_URL"),
    )
    with shop.from_environment().valkey() as valkey:
        shop.set_up_stream(valkey)


def _scenario(options: argparse.Namespace) -> None:
    case = BY_NAME[options.case]
    sent = case.play(agent.from_environment(approved=options.approved), case)
    print(json.dumps(sent.public(), ensure_ascii=False))


def _cases(options: argparse.Namespace) -> None:
    if options.json:
        rows = [{"name": c.name, "title": c.title, "ends": c.ends} for c in BY_NAME.values()]
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for case in BY_NAME.values():
        print(f"{case.name:22} {case.title}: {case.ends}")


PROGRAMS: dict[str, Callable[[argparse.Namespace], None]] = {
    "setup": _set_up,
    "register": lambda _: registration.run(),
    "executor": lambda _: executor.run(),
    "consumer": lambda _: consumer.run(),
    "agent": lambda _: agent.run(),
    "scenario": _scenario,
    "cases": _cases,
}


if __name__ == "__main__":
    main()
