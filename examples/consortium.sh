#!/usr/bin/env bash
# Three hospitals with a CSV file each, from nothing to a joint model: eleven commands.
#
#     bash examples/consortium.sh FOLDER [HOST:PORT]
#
# As between computers: each hospital dials the server at HOST:PORT, by TLS, and none is dialled. It
# runs the commands with its name as a user of its own; the consortium, which is not the server,
# runs the one that signs. As root the script makes these users, where they are missing, and starts
# each command as one of them (setpriv); otherwise all are one user, which it says. What goes from
# one to another is in four files: a public line of each hospital to the consortium, the signed
# roster and the server's certificate to all.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
address=${2:-localhost:7443}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT

if [ "$(id -u)" = 0 ] && command -v setpriv useradd >/dev/null; then
    for name in north south east north-line south-line east-line consortium server; do
        id "skdpfl-$name" &>/dev/null || useradd --system --no-create-home "skdpfl-$name"
    done
    separate=yes
    own() { chown -R "skdpfl-$1" "${@:2}"; }
    as() { user=(setpriv --reuid "$1" --regid "$1" --clear-groups); }
    echo "each hospital, the consortium and the server as a user of its own"
else
    separate=""
    own() { :; }
    as() { user=(env); }
    echo "all as one user: separate users need root, useradd and setpriv"
fi
export HOME="$out" PYTHONDONTWRITEBYTECODE=1

start() { # what "systemctl enable --now" does with these units: their command as their user
    for unit in "$@"; do
        as "$(sed -n 's/^User=//p' "$unit")"
        read -ra command <<<"$(sed -n 's/^ExecStart=//p' "$unit")"
        "${user[@]}" "${command[@]}" & # what the trap ends
    done
}

"$python" "$here/consortium.py" records "$out" # what the hospitals have already
for name in north south east; do
    mkdir -p "$out/$name" && own "$name" "$out/$name" "$out/$name.csv"
done
for name in consortium server; do
    mkdir -p "$out/$name" && own "$name" "$out/$name"
done

for name in north south east; do # 1 to 3
    as "skdpfl-$name"
    "${user[@]}" "$python" -m skdpfl silo init "$name" --records "$out/$name.csv" --target ill \
        --classes 0 1 --folder "$out/$name" --server "$address" --user "skdpfl-$name" \
        --carrier "${separate:+skdpfl-$name-line}" --unattended >"$out/$name.line"
done
as skdpfl-consortium # 4
signer=$("${user[@]}" "$python" -m skdpfl consortium roster "$out"/*.line --key "$out/consortium/key" \
    --until "$(date -u -d '+1 year' +%F)" --to "$out/consortium/study.roster")
as skdpfl-server # 5
"${user[@]}" "$python" "$here/consortium.py" fit "$out" "$address" &
server=$!
until [ -s "$out/server/server.crt" ]; do sleep 0.2; done
for name in north south east; do # 6 to 11
    as "skdpfl-$name"
    "${user[@]}" cp "$out/server/server.crt" "$out/$name" # it was sent, as the roster was
    "${user[@]}" "$python" -m skdpfl silo join "$out/$name/hospital.toml" "$out/consortium/study.roster" "$signer"
    start "$out/$name/skdpfl-gate-$name.service" "$out/$name/skdpfl-line-$name.service"
done
wait "$server"
for name in server north-line; do
    as "skdpfl-$name"
    if [ -n "$separate" ] && "${user[@]}" cat "$out"/north{.csv,/hospital.toml} 2>/dev/null; then
        echo "the user skdpfl-$name can read a hospital's files" && exit 1
    fi
done
