#!/usr/bin/env bash
# Runs the Slurm array of docs/guides/many-machines.md on a cluster of its own: one node, which is this machine, and the cpu
# device. One task is requeued and one is killed while they work, and the killed one is requeued too. Fails unless the merged
# database has every problem. By hand, as root, on Debian: `apt-get install slurm-wlm`, then this script.
#
#     slurm.sh PROGRAM        the gemm-tune to run; GEMM_TUNE_CACHE is its cache
set -euo pipefail
program=$(realpath "${1:-target/debug/gemm-tune}")
guide=$(realpath "$(dirname "$0")/../../docs/guides/many-machines.md")
folder=$(mktemp -d)
cd "$folder"
mkdir state spool parts bin
ln -s "$program" bin/gemm-tune
export PATH="$folder/bin:$PATH" SLURM_CONF="$folder/slurm.conf"
node=$(hostname -s)

cat > slurm.conf <<END
ClusterName=test
SlurmctldHost=$node
SlurmctldPort=46817
SlurmdPort=46818
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=5
MinJobAge=3600
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP
END

daemons=()
end() {
    for process in "${daemons[@]}"; do kill "$process" 2> /dev/null || true; done
    wait
    rm -rf "$folder"
}
trap end EXIT
slurmctld -D > /dev/null 2>&1 & daemons+=($!)
slurmd -D > /dev/null 2>&1 & daemons+=($!)
for _ in $(seq 60); do
    [ "$(sinfo -h -o %T 2> /dev/null)" = idle ] && break
    sleep 0.5
done
if [ "$(sinfo -h -o %T)" != idle ]; then
    tail -n 20 slurmctld.log slurmd.log
    exit 1
fi

# The array of the guide, with four tasks, without GPUs and with small searches.
awk '/^```sh cluster$/ { inside = 1; next } /^```$/ { inside = 0 } inside && !done { print } inside == 0 && NR > 1 && seen { done = 1 } { seen = inside }' \
    "$guide" > guide.sbatch
grep -q '^gemm-tune --shapes shapes.txt --db parts/' guide.sbatch
sed -e 's/--array=0-7/--array=0-3/' -e '/--gpus/d' -e 's/^gemm-tune .*/& --device cpu --max-configs 12 --jobs 1/' guide.sbatch > tune.sbatch
for extent in $(seq 32 8 150); do echo "${extent}x48x64"; done > shapes.txt
count=$(wc -l < shapes.txt)

state() { squeue -h -t all -j "$1" -o %T; }
records() { cat parts/*.toml 2> /dev/null | grep -c '^\[\[record\]\]' || true; }
wait_for() { # TASK STATES: the state of a task becomes one of these
    for _ in $(seq 600); do
        [[ " $2 " == *" $(state "$1") "* ]] && return
        sleep 0.2
    done
    echo "task $1 is $(state "$1"), not $2"
    exit 1
}
# A task has recorded something, and goes on.
wait_for_record() {
    for _ in $(seq 600); do
        grep -q '^\[\[record\]\]' "parts/$1.toml" 2> /dev/null && return
        sleep 0.1
    done
    echo "task $1 records nothing"
    exit 1
}

# Slurm lets a requeued task wait two minutes.
requeue() {
    scontrol requeue "$1"
    wait_for "$1" PENDING
    scontrol update JobId="$1" StartTime=now
}

began=$(date +%s)
job=$(sbatch --parsable --requeue --output="task-%a.txt" --open-mode=append tune.sbatch)
wait_for "${job}_0" RUNNING
wait_for_record 0
requeue "${job}_0"
echo "task 0 requeued with $(grep -c '^\[\[record\]\]' parts/0.toml) records"
wait_for "${job}_1" "RUNNING COMPLETED"
wait_for_record 1
scancel --signal=KILL --full "${job}_1"
wait_for "${job}_1" "FAILED CANCELLED NODE_FAIL COMPLETED"
echo "task 1 killed with $(grep -c '^\[\[record\]\]' parts/1.toml) records: $(state "${job}_1")"
before=$(md5sum < parts/1.toml)
requeue "${job}_1"
for task in 0 1 2 3; do wait_for "${job}_$task" COMPLETED; done
[ "$(md5sum < parts/1.toml)" != "$before" ] || echo "the killed task had recorded everything"
gemm-tune db merge parts/*.toml -o merged.toml
found=$(grep -c '^\[\[record\]\]' merged.toml)
echo "$found of $count problems in $(($(date +%s) - began)) s, $(ls parts/*.toml | wc -l) parts"
for task in 0 1 2 3; do
    echo "task $task: $(grep -o 'shard [0-9]* of [0-9]* ([^)]*): [0-9]* of [0-9]* shapes' "task-$task.txt" | sort | uniq -c | tr '\n' ' ')"
done
[ "$found" = "$count" ]
