"""What the server runs: an estimator, public facts, and what to do with the model."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

from skdpfl import DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.datasets import fetch_heart_disease
from skdpfl.federation import Schema
from skdpfl.flower import server_app

#: published; each hospital compares its own
SIZES = {"cleveland": 303, "hungarian": 261, "switzerland": 46, "va": 130}
OPTIONS = {
    "ISRLDPClassifier": (ISRLDPClassifier, {"n_rounds": 20}),
    "DPScaffoldClassifier": (DPScaffoldClassifier, {"n_rounds": 10, "local_steps": 5}),
    # masked sums, in which each hospital adds a share of the noise
    "ISRLDPClassifier-secagg": (ISRLDPClassifier, {"n_rounds": 10, "trust": "secagg"}),
}


def model(config):
    """Return the estimator that ``flwr run`` asks for; fewer rounds if it says so."""
    kind, options = OPTIONS[config["estimator"]]
    if config["rounds"]:
        options = options | {"n_rounds": config["rounds"]}
    return kind(
        epsilon=3,
        delta=1e-4,
        feature_bounds=fetch_heart_disease().feature_bounds,
        classes=[0, 1],
        random_state=0,  # a simulation: in earnest None
        **options,
    )


def keep(fitted, federation, config):
    """Write down the model, and how long its rounds took."""
    path = Path(config["out"]) / config["estimator"]
    np.savez(f"{path}.npz", coef=fitted.coef_, intercept=fitted.intercept_)
    report = {"seconds per round": federation.round_seconds, "epsilon": federation.epsilons}
    path.with_suffix(".json").write_text(json.dumps(report))


fits = server_app(model, Schema(SIZES, n_features=13), finished=keep, timeout=300.0)
app = ServerApp()


@app.main()
def main(grid, context):
    """Fit what is asked for, or send messages that carry nothing, to time Flower itself."""
    config = context.run_config
    if config["estimator"] != "empty":
        try:
            return fits(grid, context)
        except Exception as error:
            path = Path(config["out"]) / f"{config['estimator']}.json"
            path.write_text(json.dumps({"error": f"{type(error).__name__}: {error}"}))
            raise
    seconds = []
    for _ in range(config["rounds"]):
        begin = time.monotonic()
        nodes = grid.get_node_ids()
        messages = [
            Message(RecordDict(), dst_node_id=node, message_type="query.nothing", ttl=60.0)
            for node in nodes
        ]
        waiting = set(grid.push_messages(messages))
        while waiting and time.monotonic() < begin + 60:
            for reply in grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
            time.sleep(0.1)
        seconds.append(time.monotonic() - begin)
    report = json.dumps({"seconds per round": seconds})
    (Path(config["out"]) / "empty.json").write_text(report)
