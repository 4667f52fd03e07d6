# Makes a machine that is thrown away, in namespaces of its own, and runs the program in it. Root runs this, in new mount, pid and network namespaces.
#   machine.sh ROOT USER UID HOME BASE FILES PROGRAM ARGUMENT…
# ROOT is an empty directory on the disk. BASE is where the project will be. FILES is how BASE is mounted: plain, overlay or small.
# /opt/byleave, /opt/browser and /opt/places are those of the directory OPT in the environment.
set -eu
root=$1 user=$2 uid=$3 home=$4 base=$5 files=$6
shift 6
ip link set lo up
mount --bind "$root" "$root"
cd "$root"
# The system, read-only: a place that goes wrong must not change the machine around it.
for entry in /*; do
    case $entry in
        /usr | /bin | /sbin | /lib*)
            if [ -L "$entry" ]; then cp -P "$entry" .; else mkdir ".$entry" && mount --rbind "$entry" ".$entry" && mount -o remount,bind,ro ".$entry"; fi ;;
    esac
done
mkdir -p -m 755 proc dev sys home opt root srv var/lib var/cache run old ".$home" ".$base"
mkdir -m 1777 tmp var/tmp 2>/dev/null || chmod 1777 tmp var/tmp
chmod 700 root
mount --rbind "$OPT" opt
# A copy, because a mount over a file of the machine is gone when the machine replaces the file.
cp -a /etc etc
for file in passwd group; do sed -i "/^$user:/d" etc/$file; done
echo "$user:x:$uid:$uid::$home:/bin/bash" >>etc/passwd; echo "$user:x:$uid:" >>etc/group
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do touch dev/$device && mount --bind /dev/$device dev/$device; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
case $files in
    plain) ;;
    # Everything of the user on a small disk.
    small) mount -t tmpfs -o size=1500m,mode=755 tmpfs ".$home"; mkdir -p ".$base" ;;
    overlay)
        mkdir -p var/layers/lower var/layers/upper var/layers/work
        mount -t overlay -o lowerdir=var/layers/lower,upperdir=var/layers/upper,workdir=var/layers/work overlay ".$base" ;;
    *) echo "machine.sh: there is no $files" >&2; exit 2 ;;
esac
chown -R "$uid:$uid" ".$home" ".$base"
pivot_root . old
cd /
umount -l /old
rmdir /old
exec "$@"
