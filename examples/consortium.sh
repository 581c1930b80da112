#!/usr/bin/env bash
# Three hospitals with a CSV file each, from nothing to a joint model: eleven commands.
#
#     bash examples/consortium.sh FOLDER
#
# Each hospital runs those with its name as a user of its own, and its gate as the systemd unit that
# init writes; the consortium, which is not the server, runs the one that signs. As root the script
# makes these users, where they are missing, and starts each command as one of them (setpriv), the
# server's, too; otherwise all are one user, which it says.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT

if [ "$(id -u)" = 0 ] && command -v setpriv useradd >/dev/null; then
    for name in north south east consortium server; do
        id "skdpfl-$name" &>/dev/null || useradd --system --no-create-home "skdpfl-$name"
    done
    server=skdpfl-server
    own() { chown -R "skdpfl-$1" "${@:2}"; }
    as() { user=(setpriv --reuid "skdpfl-$1" --regid "skdpfl-$1" --clear-groups); }
    echo "each hospital, the consortium and the server as a user of its own"
else
    server=""
    own() { :; }
    as() { user=(env); }
    echo "all as one user: separate users need root, useradd and setpriv"
fi
export HOME="$out" PYTHONDONTWRITEBYTECODE=1

"$python" "$here/consortium.py" records "$out"  # what the hospitals have already
for name in north south east; do
    mkdir -p "$out/$name" && own "$name" "$out/$name" "$out/$name.csv"
done
mkdir -p "$out/consortium" && own consortium "$out/consortium"

for name in north south east; do
    as "$name"
    "${user[@]}" "$python" -m skdpfl silo init "$name" --records "$out/$name.csv" --target ill \
        --classes 0 1 --folder "$out/$name" --carrier "$server" --unattended >"$out/$name.line"
done
as consortium
signer=$("${user[@]}" "$python" -m skdpfl consortium roster "$out"/*.line --key "$out/consortium/key" \
    --until "$(date -u -d '+1 year' +%F)" --to "$out/consortium/study.roster")
for name in north south east; do
    as "$name"
    "${user[@]}" "$python" -m skdpfl silo join "$out/$name/hospital.toml" "$out/consortium/study.roster" "$signer"
    "${user[@]}" "$python" -m skdpfl silo serve "$out/$name/hospital.toml" &  # what the trap ends
done
as server
"${user[@]}" "$python" "$here/consortium.py" fit "$out"
if [ -n "$server" ] && "${user[@]}" cat "$out"/north{.csv,/hospital.toml} 2>/dev/null; then
    echo "the server's user can read a hospital's files" && exit 1
fi
