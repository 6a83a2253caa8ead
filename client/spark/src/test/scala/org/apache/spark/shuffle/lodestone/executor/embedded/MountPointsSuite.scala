// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.nio.file.{Files, Path, Paths}

import org.junit.jupiter.api.Assertions.{assertFalse, assertTrue}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

class MountPointsSuite {

  @Test def `the mounts of this machine are found, also behind a link`(@TempDir dir: Path): Unit = {
    val mounts = MountPoints.ofThisProcess()
    val link = Files.createSymbolicLink(dir.resolve("link"), Paths.get("/proc"))
    assertTrue(mounts.contains(Paths.get("/proc")))
    assertTrue(mounts.contains(link))
    assertFalse(mounts.contains(dir))
    assertFalse(mounts.contains(dir.resolve("not-there")))
  }

  @Test def `a volume of the same device as its parent is a mount`(@TempDir dir: Path)
      : Unit = {
    val mountInfo = Files.write(
      dir.resolve("mountinfo"),
      """27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
        |91 27 254:0 /kubelet/empty-dir/a /var/data/spark-1 rw,relatime - ext4 /dev/vda rw
        |92 27 254:0 /b /with\040blank\134 rw,relatime shared:7 - ext4 /dev/vda rw
        |what is this
        |""".stripMargin.getBytes)
    val mounts = MountPoints.ofThisProcess(mountInfo)
    assertTrue(mounts.contains(Paths.get("/var/data/spark-1")))
    assertTrue(mounts.contains(Paths.get("/with blank\\")))
    assertFalse(mounts.contains(Paths.get("/var/data")))
    assertFalse(mounts.contains(Paths.get("/kubelet/empty-dir/a")))
  }

  @Test def `without mount information there are no mounts`(@TempDir dir: Path): Unit =
    assertFalse(MountPoints.ofThisProcess(dir.resolve("none")).contains(Paths.get("/")))
}
