#!/usr/bin/env bash
# Three hospitals with a CSV file each, from nothing to a joint model: eleven commands.
#
#     bash examples/consortium.sh FOLDER
#
# Each hospital runs those with its name as a user of its own (sudo -u skdpfl ...), and its gate as
# the systemd unit that init writes; the consortium, which is not the server, runs the one that signs.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
skdpfl() { "${PYTHON:-python}" -m skdpfl "$@"; }
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT

"${PYTHON:-python}" "$here/consortium.py" records "$out"  # what the hospitals have already

for name in north south east; do
    skdpfl silo init "$name" --records "$out/$name.csv" --target ill --classes 0 1 \
        --folder "$out/$name" --unattended > "$out/$name.line"
done
signer=$(skdpfl consortium roster "$out"/*.line --key "$out/consortium.key" \
    --until "$(date -u -d '+1 year' +%F)" --to "$out/study.roster")
for name in north south east; do
    skdpfl silo join "$out/$name/hospital.toml" "$out/study.roster" "$signer"
    "${PYTHON:-python}" -m skdpfl silo serve "$out/$name/hospital.toml" &  # what the trap ends
done
"${PYTHON:-python}" "$here/consortium.py" fit "$out"
