# What the attempts of tests/corpus/escapes.jsonl expect of a machine, in namespaces that are thrown away afterwards: homes, victims'
# places, programs with more rights.
#   escapes.sh SUPERVISOR
set -eu
uid=$BYLEAVE_TEST_UID
H=/home/sbxuser
# Held open: it may lie in one of the places that are emptied now.
exec 9<"$1"
for place in /home /mnt /run /root /srv /usr/local/bin; do mount -t tmpfs -o mode=755 tmpfs $place; done
for place in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $place; done
mkdir -p $H /home/sbxroot /home/report /mnt/homealias /run/user/1001 /tmp/ssh-sbx /tmp/tmux-1001
mkdir -p $H/.gnupg /root/.ssh
echo SECRET-KEY >/root/.ssh/id_rsa
chown -R $uid:$uid $H /home/sbxroot /home/report /run/user/1001 /tmp/ssh-sbx /tmp/tmux-1001
mount --bind $H /mnt/homealias
cat <&9 >/usr/local/bin/supervisor
exec 9<&-
chmod 755 /usr/local/bin/supervisor
cp /usr/bin/id /usr/local/bin/sbx-suid-id
chmod 4755 /usr/local/bin/sbx-suid-id
cp /bin/grep /usr/local/bin/sbx-cap-grep
setcap cap_net_admin,cap_dac_override+ep /usr/local/bin/sbx-cap-grep
printf '%s\n' '#include <stdio.h>' 'int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");' \
    'printf("int80 getpid=%d %s\n", r, r > 0 ? "INT80-OK" : ""); return 0; }' >/root/int80.c
gcc -O1 -o /usr/local/bin/sbx-int80 /root/int80.c
# The loopback of this network, up and running.
python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack("16sh22x", b"lo", 0x41))'
python3 -c 'import ctypes; ctypes.CDLL(None).shmget(0x5eb0, 4096, 0o1666)'
