#!/usr/bin/env bash
# Plans, trains on three providers on this machine, fuses and checks: ./run.sh [epochs]
set -em  # jobs of their own, so that Ctrl-C can be handed to them
cd "$(dirname "$0")"
python=${PYTHON:-../../.venv/bin/python}
"$python" cluster_formation.py
for i in 2 1 0; do
  "$python" provider.py node_$i "${1:-100}" >provider_$i.log 2>&1 &
  providers+=($!)
done
trap 'kill -INT "${providers[@]}" 2>/dev/null' INT TERM
for each in "${providers[@]}"; do wait "$each"; done
cat provider_?.log
"$python" evaluate.py
