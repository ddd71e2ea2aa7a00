cd /tmp/aud3_exp
# US daylight saving time begins 2027-03-14, ends 2027-11-07; New Year's Eve
for h in $((24*110)) $((24*348)) $((24*37)); do
 echo "shift $h"; SHIFT_H=$h nice -n 15 timeout 280 /tmp/wt/aud3/.venv/bin/python -m pytest -q -n 1 -m "slow or not slow" tests/rehearsal/test_forecasts.py -k "[2 or [5 or [7" -p no:cacheprovider 2>&1 | grep -E "^FAILED|^E  |passed|failed" | cut -c1-240 | tail -12
done
