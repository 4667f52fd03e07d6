#!/usr/bin/env python3
"""Stands in for Codex where it is not installed: lists its hooks with their trust, and checks its rules, as Codex does.

`scripts/agents` runs the same checks with the real program.
"""

import hashlib
import json
import os
import pathlib
import sys
import tomllib

HOME = pathlib.Path(os.environ.get("CODEX_HOME") or pathlib.Path(os.environ["HOME"]) / ".codex")
EVENTS = {"PreToolUse": "pre_tool_use", "PostToolUse": "post_tool_use", "Stop": "stop"}


def hooks():
    settings = HOME / "config.toml"
    config = tomllib.loads(settings.read_text()) if settings.exists() else {}
    if config.get("features", {}).get("hooks") is False:
        return
    path = HOME / "hooks.json"
    lists = json.loads(path.read_text())["hooks"] if path.exists() else {}
    for event, groups in lists.items():
        for number, group in enumerate(groups):
            for index, handler in enumerate(group["hooks"]):
                key = f"{path}:{EVENTS[event]}:{number}:{index}"
                state = config.get("hooks", {}).get("state", {}).get(key, {})
                identity = json.dumps([event, group.get("matcher"), handler], sort_keys=True)
                current = "sha256:" + hashlib.sha256(identity.encode()).hexdigest()
                trusted = state.get("trusted_hash")
                yield {
                    "key": key, "eventName": event[0].lower() + event[1:], "command": handler["command"],
                    "sourcePath": str(path), "enabled": state.get("enabled", True), "currentHash": current,
                    "trustStatus": "untrusted" if trusted is None else "trusted" if trusted == current else "modified",
                }


def serve():
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("method") == "hooks/list":
            answer = {"data": [{"cwd": ".", "hooks": list(hooks()), "warnings": [], "errors": []}]}
        else:
            answer = {}
        if "id" in request:
            print(json.dumps({"id": request["id"], "result": answer}), flush=True)


def check(words):
    at = words.index("--")
    command = words[at + 1:]
    decision = None
    for option, path in zip(words[:at:2], words[1:at:2]):
        assert option == "--rules", option
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith("prefix_rule(pattern = "):
                pattern, end = json.JSONDecoder().raw_decode(line.removeprefix("prefix_rule(pattern = "))
                if command[: len(pattern)] == pattern:
                    said = line.split('decision = "')[1].split('"')[0]
                    decision = max(decision or "allow", said, key=["allow", "prompt", "forbidden"].index)
            elif line and not line.startswith("#"):
                sys.exit(1)
    print(json.dumps({"matchedRules": [], **({"decision": decision} if decision else {})}))


if sys.argv[1:2] == ["app-server"]:
    serve()
elif sys.argv[1:3] == ["execpolicy", "check"]:
    check(sys.argv[3:])
else:
    sys.exit(2)
