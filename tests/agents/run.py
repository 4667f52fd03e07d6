"""Runs the checks of real agents in front of a scripted model. `scripts/agents` prepares everything and starts this.

    run.py --programs DIR --agents DIR --trials DIR --user NAME --json FILE [--only NAME,...] [--trial NAME,...] [--long]

Ends with 1 if a check does not hold.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import sys
import threading
import time

import agents
import checks
from scripted_model import ScriptedModel
from trial import Trial, remove

# The agents mostly wait, so there are more trials at a time than cores.
AT_ONCE = 5
PRINTING = threading.Lock()


@dataclasses.dataclass
class Setup:
    programs: pathlib.Path
    agents: pathlib.Path
    trials: pathlib.Path
    user: str
    waives_memory: bool
    model: ScriptedModel
    # The tools that each agent offered.
    offered: dict


def main():
    parser = argparse.ArgumentParser()
    for name in ("--programs", "--agents", "--trials", "--json"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--trial", default="")
    parser.add_argument("--waive-memory", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--long", action="store_true")
    typed = parser.parse_args()
    chosen = [agent for agent in agents.AGENTS if not typed.only or agent.name in typed.only.split(",")]
    unknown = set(filter(None, typed.only.split(","))) - {agent.name for agent in agents.AGENTS}
    if unknown:
        sys.exit(f"there is no agent {', '.join(sorted(unknown))}; there are {', '.join(agent.name for agent in agents.AGENTS)}")
    setup = Setup(typed.programs, typed.agents, typed.trials, typed.user, typed.waive_memory, ScriptedModel(), {})
    wanted = set(filter(None, typed.trial.split(",")))

    def is_chosen(trial):
        return trial.__name__ in wanted if wanted else typed.long or trial not in checks.LONG_TRIALS

    tasks = [
        (agent, trial)
        for trial in checks.TRIALS
        for agent in chosen
        if checks.applies(agent, trial) and is_chosen(trial)
    ]
    # The longest wait begins first.
    tasks.sort(key=lambda task: task[1] not in (checks.patience, checks.session))
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        rows = [row for rows in pool.map(lambda task: run_trial(setup, *task, typed.keep), tasks) for row in rows]
    setup.model.close()
    typed.json.write_text(json.dumps({
        "versions": {agent.name: versions.get(agent.name, "?") for agent in chosen},
        "rows": rows,
        "tools": setup.offered,
        "seconds": round(time.monotonic() - began),
    }, indent=1))
    failed = [row for row in rows if row["result"] == "FAILED"]
    print_summary(rows, failed, time.monotonic() - began)
    sys.exit(1 if failed else 0)


versions = {}


def run_trial(setup, agent, function, is_kept):
    """Runs one trial. An error in the trial is a failed check."""
    began, rows = time.monotonic(), []
    trial = None
    try:
        trial = Trial(agent, function.__name__, setup)
        if function is checks.plays:
            versions[agent.name] = trial.version()
        for check, holds, seen in function(trial):
            rows.append(row_for(agent, check, holds, seen))
    except Exception as error:
        rows.append(row_for(agent, f"the trial {function.__name__} ends", False, repr(error)))
    if trial is not None and not is_kept:
        remove(trial.place)
    with PRINTING:
        for row in rows:
            seen = "" if row["result"] == "holds" else "   " + row["seen"]
            print(f"{row['result']:<10} {agent.name}: {row['check']}{seen}", flush=True)
        print(f"-- {agent.name} {function.__name__}: {time.monotonic() - began:.0f} s", flush=True)
    return rows


def row_for(agent, check, holds, seen):
    reason = agent.impossible.get(check)
    if reason is None:
        result = "holds" if holds else "FAILED"
    elif holds:
        result, seen = "FAILED", f"it holds now; remove it from `impossible`: {reason}"
    else:
        result, seen = "impossible", reason
    return {"agent": agent.name, "check": check, "result": result, "seen": str(seen)[:700]}


def print_summary(rows, failed, seconds):
    held = sum(row["result"] == "holds" for row in rows)
    impossible = sum(row["result"] == "impossible" for row in rows)
    print(f"\nfigure: {held} of {len(rows)} checks hold, {impossible} the agent makes impossible, {seconds:.0f} s")
    for row in failed:
        print(f"FAILED {row['agent']}: {row['check']}   {row['seen']}")


if __name__ == "__main__":
    main()
