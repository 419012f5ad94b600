#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of record_history, read by other programs: Python's pickle, json and csv, pandas, and Perfetto's classes.

    record_history.py FOLDER-OF-PROGRAMS    runs record_history and checks its files
    record_history.py --pickle FILE...      checks these files for PyTorch's memory viewer alone
"""
import csv
import json
import pathlib
import pickle
import pickletools
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TOP / "tests"), str(TOP / ".deps/perfetto")]
KNOWN = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "APPENDS", "SETITEMS", "NEWTRUE", "NEWFALSE", "BININT1", "BININT2",
         "BININT", "LONG1", "BINUNICODE", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "STOP"}
ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "oom", "user_defined"}


def opcode_faults(data):
    """The viewer knows few opcodes, and passes each batch of a list to a function as arguments."""
    faults = []
    for opcode, argument, place in pickletools.genops(data):
        if opcode.name not in KNOWN:
            faults.append(f"opcode {opcode.name} at {place}")
        if opcode.name == "PROTO" and argument != 2:
            faults.append(f"protocol {argument}")
        if opcode.name == "LONG1" and argument >= 2**63:
            faults.append(f"{argument} is no number for the viewer")
    return faults


def frame_faults(frames):
    return [f"frame {frame}" for frame in frames
            if not (isinstance(frame["name"], str) and isinstance(frame["filename"], str) and isinstance(frame["line"], int))]


def segment_faults(segment):
    faults, at = frame_faults(segment["frames"]), segment["address"]
    for block in segment["blocks"]:
        if block["address"] != at or block["size"] <= 0:
            faults.append(f"block at {block['address']} begins at {at}")
        if block["state"] not in ("active_allocated", "active_pending_free", "inactive"):
            faults.append(f"state {block['state']}")
        if "requested_size" not in block:
            faults.append("a block with frames and without requested_size")
        faults += frame_faults(block["frames"])
        at += block["size"]
    if at != segment["address"] + segment["total_size"]:
        faults.append("the blocks are not as large as their segment")
    active = [b for b in segment["blocks"] if b["state"] != "inactive"]
    if segment["active_size"] != sum(b["size"] for b in active):
        faults.append("active_size is not the sum")
    return faults


def replay_faults(segments, trace):
    """Replays the trace from its end to its begin, as the viewer does: each live block lies in a segment."""
    faults = []
    chunks = [[s["address"], s["total_size"]] for s in segments]
    blocks = {b["address"]: [b["size"], b["state"] == "active_pending_free"]
              for s in segments for b in s["blocks"] if b["state"] != "inactive"}

    def around(address, size):
        return next((c for c in chunks if c[0] <= address and address + size <= c[0] + c[1]), None)

    for number, event in reversed(list(enumerate(trace))):
        action, address, size = event["action"], event.get("addr"), event["size"]
        place = f"event {number} ({action} {address}, {size} bytes)"
        if action == "alloc":
            if blocks.pop(address, None) is None:
                faults.append(f"{place}: no such block afterwards")
        elif action == "free_completed":
            if address in blocks:
                faults.append(f"{place}: the block is live afterwards")
            blocks[address] = [size, True]
            if around(address, size) is None:
                faults.append(f"{place}: not in a segment")
        elif action == "free_requested":
            if address not in blocks or not blocks[address][1]:
                faults.append(f"{place}: it never completes and is not pending")
            else:
                blocks[address][1] = False
        elif action == "segment_alloc":
            if [address, size] not in chunks:
                faults.append(f"{place}: no such segment")
            else:
                chunks.remove([address, size])
        elif action == "segment_free":
            chunks.append([address, size])
        elif action == "segment_map":
            found = around(address, size)
            if found is None or found[0] == address:
                faults.append(f"{place}: not the growth of a segment")
            else:
                if found[0] + found[1] != address + size:  # it had joined two segments
                    chunks.append([address + size, found[0] + found[1] - address - size])
                found[1] = address - found[0]
        if action.startswith("segment"):
            faults += [f"{place}: the block {b} is in no segment" for b, (n, _) in blocks.items() if around(b, n) is None]
    return faults


def viewer_faults(snapshot):
    faults = []
    for segment in snapshot["segments"]:
        faults += segment_faults(segment)
    for device, trace in enumerate(snapshot["device_traces"]):
        for event in trace:
            if event["action"] not in ACTIONS:
                faults.append(f"action {event['action']}")
            if "category" in event:
                faults.append("a category without 'unknown'")
            if not all(isinstance(event[key], int) for key in ("size", "stream", "time_us")):
                faults.append(f"members of {event}")
            faults += frame_faults(event["frames"])
        if [e["time_us"] for e in trace] != sorted(e["time_us"] for e in trace):
            faults.append("the events are not in order of time")
        faults += replay_faults([s for s in snapshot["segments"] if s["device"] == device], trace)
    return faults


def pickle_faults(path):
    data = path.read_bytes()
    return opcode_faults(data) + viewer_faults(pickle.loads(data))


def events_of_perfetto(data, classes):
    """Each counter's values by the name of its track, and the names of the events."""
    trace = classes.Trace()
    trace.ParseFromString(data)
    names, units, values, instants = {}, {}, {}, []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            names[track.uuid] = track.name
            units[track.name] = track.counter.unit
        event = packet.track_event
        if event.type == classes.TrackEvent.TYPE_COUNTER:
            values.setdefault(names[event.track_uuid], []).append(event.counter_value)
        elif event.type == classes.TrackEvent.TYPE_INSTANT:
            instants.append(event.name)
    bytes_ = classes.CounterDescriptor.UNIT_SIZE_BYTES
    return values, instants, {name for name in values if units[name] != bytes_}


def is_same(a, b):
    """Whether two snapshots are equal. Each file converts the clock anew, so times differ by microseconds."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(
            abs(a[key] - b[key]) <= 100 if key == "time_us" else is_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    return a == b


def main():
    from program import Program
    program = Program("record_history", device=None)
    if not program.path.exists():  # VRAM_QUICK builds few examples
        program.skip("the files of record_history", "the program is not built")
        program.exit()
    folder = program.folder
    run = program(folder)
    check = program.check
    check("record_history succeeds", run.returncode == 0, run)

    faults = pickle_faults(folder / "run.pickle")
    check(f"the pickle follows the rules of the viewer: {faults[:3]}", not faults, run)
    faults = pickle_faults(folder / "end.pickle")
    check(f"so does the one of the end of the process: {faults[:3]}", not faults, run)
    snapshot = pickle.loads((folder / "run.pickle").read_bytes())
    check("JSON and pickle have the same contents", is_same(json.loads((folder / "run.viewer.json").read_text()), snapshot), run)
    trace = snapshot["device_traces"][0]
    check("25 blocks were allocated and freed", [sum(e["action"] == a for e in trace) for a in
                                                  ("alloc", "free_requested", "free_completed", "oom")] == [25, 25, 25, 1], run)
    check("the tag is a frame", any(f["name"] == "tag optimizer" for e in trace for f in e["frames"]), run)
    check("so is the line", any(f["filename"].endswith("record_history.cpp") for e in trace for f in e["frames"]), run)

    with open(folder / "run.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    check("the CSV begins with RMM's columns", list(rows[0])[:6] == ["Thread", "Time", "Action", "Pointer", "Size", "Stream"], run)
    check("it has each allocation and free", [sum(r["Action"] == a for r in rows) for a in
                                              ("allocate", "free", "allocate failure")] == [25, 25, 1], run)
    check("pointers are hexadecimal", all(int(r["Pointer"], 16) or r["Action"] == "allocate failure" for r in rows), run)
    try:
        import pandas
        table = pandas.read_csv(folder / "run.csv")
        check("pandas sums the sizes", table[table.Action == "allocate"].Size.sum() == 8 * 2**20 + 3 * 3600000, run)
    except ImportError:
        program.skip("pandas reads the CSV", "pandas is not installed")

    chrome = json.loads((folder / "run.chrome.json").read_text())["traceEvents"]
    live = [e["args"]["live"] for e in chrome if e["ph"] == "C" and e["name"] == "memory"]
    check("the counter of Chrome's trace ends at 0", live[-1] == 0 and max(live) == 8 * 2**20 + 3600000, run)
    check("each block has an event", sum(e["name"] == "[memory]" for e in chrome) == 50, run)
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as classes
    except ImportError as why:
        program.skip("Perfetto's classes parse the trace", why)
    else:
        values, instants, others = events_of_perfetto((folder / "run.perfetto-trace").read_bytes(), classes)
        changes = [n for n, before in zip(live, [0] + live) if n != before]
        check("Perfetto's counters have the same values", values["live"][1:] == changes, run)
        check("there is a counter for each tag", max(values["tag activations"]) == 3600000
              and max(values["tag optimizer"]) == 8 * 2**20, run)
        check(f"counters are bytes: {others}", not others, run)
        check("the refusal is an event", "refused" in instants, run)
    program.exit()


if __name__ == "__main__":
    if sys.argv[1] == "--pickle":
        found = {name: pickle_faults(pathlib.Path(name)) for name in sys.argv[2:]}
        for name, faults in found.items():
            print(name, *(faults[:10] or ["follows the rules"]), sep="\n  ")
        sys.exit(any(found.values()))
    main()
