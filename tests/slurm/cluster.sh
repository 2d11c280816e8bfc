#!/usr/bin/env bash
# A real Slurm of one node on this machine, for tests; needs root, slurm-wlm and munge.
#   cluster.sh start FOLDER    prints the path of its slurm.conf (give it to clients as SLURM_CONF)
#   cluster.sh stop FOLDER
set -euo pipefail
action=$1 folder=$2
export PATH="$PATH:/usr/sbin"

start() {
  mkdir -p "$folder/state" "$folder/spool" "$folder/log" /run/munge /var/lib/munge /var/log/munge /etc/munge
  chown munge: /run/munge /var/lib/munge /var/log/munge /etc/munge
  chmod 755 /run/munge
  if [ ! -f /etc/munge/munge.key ]; then
    dd if=/dev/urandom of=/etc/munge/munge.key bs=1 count=1024 status=none
  fi
  chown munge: /etc/munge/munge.key
  chmod 400 /etc/munge/munge.key
  munge -n >/dev/null 2>&1 || su -s /bin/sh munge -c "munged" || true
  for _ in $(seq 50); do munge -n >/dev/null 2>&1 && break; sleep 0.1; done
  cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
JobRequeue=1
MinJobAge=300
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF="$folder/slurm.conf"
  slurmctld -f "$SLURM_CONF"
  slurmd -N localhost -f "$SLURM_CONF"
  for _ in $(seq 100); do
    sinfo -h -o %T 2>/dev/null | grep -q idle && break
    sleep 0.1
  done
  sinfo -h -o %T | grep -q idle
  echo "$SLURM_CONF"
}

stop() {
  for name in slurmd slurmctld; do
    if [ -f "$folder/$name.pid" ]; then kill "$(cat "$folder/$name.pid")" 2>/dev/null || true; fi
  done
}

"$action"
