"""What the server runs: what ``study.py`` has, and what to do with the model."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
from study import FACTS, model

from skdpfl.flower import server_app


def keep(fitted, federation, config):
    """Write down the model, and how long its rounds took."""
    path = Path(config["out"]) / config["report"]
    np.savez(f"{path}.npz", coef=fitted.coef_, intercept=fitted.intercept_)
    report = {"seconds per round": federation.round_seconds, "epsilon": federation.epsilons}
    write(config, report)


def write(config, report):
    path = Path(config["out"]) / f"{config['report']}.json"
    path.with_suffix(".part").write_text(json.dumps(report))
    path.with_suffix(".part").rename(path)


fits = server_app(
    model,
    FACTS,
    finished=keep,
    timeout=120.0,
    journal=lambda config: f"{config['out']}/{config['report']}.journal",
    line=lambda config: config["line"],
)
app = ServerApp()


@app.main()
def main(grid, context):
    """Fit what is asked for, or send messages that carry nothing, to time Flower itself."""
    config = context.run_config
    if config["estimator"] != "empty":
        try:
            return fits(grid, context)
        except Exception as error:
            write(config, {"error": f"{type(error).__name__}: {error}"})
            raise
    seconds = []
    for _ in range(config["rounds"]):
        begin = time.monotonic()
        messages = [
            Message(RecordDict(), dst_node_id=node, message_type="query.nothing", ttl=60.0)
            for node in grid.get_node_ids()
        ]
        waiting = set(grid.push_messages(messages))
        while waiting and time.monotonic() < begin + 60:
            for reply in grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
            time.sleep(0.1)
        seconds.append(time.monotonic() - begin)
    write(config, {"seconds per round": seconds})
