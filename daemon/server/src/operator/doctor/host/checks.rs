// SPDX-License-Identifier: Apache-2.0
//! The checks of a host that shall run a daemon.

use crate::operator::doctor::finding::checks;

checks! { ALL:

FLAGS "flags" Error
    "`lodestone serve` refuses these flags, or this file"
    "Correct the flag."

DIRECTORY "directory" Error
    "a data directory does not exist, is no directory, is given twice, takes no file of this user, \
     or its file system does not answer"
    "Create it, owned by the user of the daemon, with mode 0700."

DIRECTORY_ACCESS "directory-access" Warning
    "other users may rename or replace the daemon's data"
    "Let only the user of the daemon write to it (chmod go-w), or set the sticky bit."

OWNER "directory-owner" Note
    "a data directory is of another user than the one who runs this command"
    "Run this command as the user of the daemon, who must be its owner."

ROOM "room" Error
    "a disk has no more free space than the daemon leaves free (`reserve`), or a limit of files"
    "Free space, name another directory, or lower --reserve."

FILE_SYSTEM "file-system" Warning
    "the directory is in memory (tmpfs, ramfs), or on the network"
    "Name a directory on a local disk."

SAME_DISK "same-disk" Warning
    "two data directories are on one disk: they share its speed, and the daemon counts it twice"
    "Name one directory for each disk."

SPEED "speed" Warning
    "a disk writes less than 20 MB/s; below 100 MB/s it is a note. Measured with one file of up to \
     64 MiB, written for up to 2 s, without a name, so that nothing is left of it"
    "Use a faster disk, or give the daemon more --memory, so that it writes less."

NOEXEC "noexec" Warning
    "the first local directory of Spark on this host is mounted `noexec`: the daemon in the jar \
     cannot run there (`NO_SERVICE`)"
    "Put the program `lodestone` on each host, and name it with \
     spark.lodestone.embedded.binary, or choose another spark.local.dir."

BINARY "embedded-binary" Warning
    "spark.lodestone.embedded.binary names no program of this host (`NO_SERVICE`)"
    "Put the program `lodestone` there, on every host with executors, or remove the key."

MEMORY "memory" Error
    "--memory, and what the daemon needs beside it, do not fit into the control group or the host"
    "Lower --memory, or raise the limit of the container or unit."

FILES "open-files" Warning
    "the limit of open files is too low for --max-connections"
    "Raise the hard limit (LimitNOFILE= of the unit, or ulimit -Hn), or lower --max-connections."

CERTIFICATE "certificate" Error
    "a certificate in PEM that is on this host (--tls-cert, spark.ssl.rpc.certChain) cannot be \
     read (a note if this user may not read it), does not belong to its key, is not valid yet, \
     has expired, or expires soon (in 30 days, or in the last third of its time)"
    "Replace it. A daemon reads changed files before the next connection, Spark when it starts."

KEY_FILE "key-file" Warning
    "any user of this host can read or replace the key of a certificate (--tls-key, \
     spark.ssl.rpc.privateKey)"
    "Let only its user read it (chmod 600), and replace the certificate if others may have the key."

PORT "port" Error
    "the address of --listen or --admin is taken, or is not of this host"
    "Stop the other process (`ss -ltnp` shows it), or choose another port."

CLOCK "clock" Note
    "the clock of this host is not synchronised (timedatectl): certificates and the times of logs \
     depend on it, no data does"
    "Start a time service, such as chrony."
}
