// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.nio.file.{Files, Path, Paths}

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.shuffle.lodestone.plan.MapSample

class DiskProbeSuite {

  /** As the kernel shows a partition of a disk: `dev/block/M:m` leads to it. */
  private def sysfs(root: Path, data: Path, disk: String, vendor: String, turns: String): Path = {
    val device = Files.getAttribute(data, "unix:dev").asInstanceOf[Long]
    val folder = root.resolve(s"devices/$disk")
    val partition = Files.createDirectories(folder.resolve(s"${disk}1"))
    Files.write(partition.resolve("partition"), "1\n".getBytes)
    Files.createDirectories(folder.resolve("queue"))
    Files.write(folder.resolve("queue/rotational"), s"$turns\n".getBytes)
    Files.createDirectories(folder.resolve("device"))
    Files.write(folder.resolve("device/vendor"), s"$vendor\n".getBytes)
    val nodes = Files.createDirectories(root.resolve("dev/block"))
    Files.createSymbolicLink(nodes.resolve(DiskProbe.numbers(device)), partition)
    root
  }

  @Test def `a disk of files is measured and nothing is left on it`(@TempDir dir: Path): Unit = {
    val micros = DiskProbe.readMicros(Seq(dir.toFile))
    assertTrue(micros >= 0 && micros < 1000000, s"$micros us for a small read")
    assertEquals(0, dir.toFile.list().length)
  }

  @Test def `a directory that is not there is of unknown speed`(): Unit = {
    assertEquals(DiskProbe.Unknown, DiskProbe.readMicros(Nil))
    assertEquals(DiskProbe.Unknown, DiskProbe.readMicros(Paths.get("/nowhere"), Paths.get("/sys")))
  }

  @Test def `a disk that turns takes a seek though its own memory answers faster`(
      @TempDir sys: Path,
      @TempDir data: Path): Unit = {
    sysfs(sys, data, "sdb", "ATA", "1")
    assertTrue(DiskProbe.readMicros(data, sys) >= 8000)
  }

  @Test def `what a hypervisor says of turning does not count`(
      @TempDir sys: Path,
      @TempDir data: Path): Unit =
    assertFalse(DiskProbe.turns(data, sysfs(sys, data, "sda", "QEMU", "1")))

  @Test def `a solid disk does not turn`(@TempDir sys: Path, @TempDir data: Path): Unit =
    assertFalse(DiskProbe.turns(data, sysfs(sys, data, "sdc", "ATA", "0")))

  @Test def `a disk that lets a burst through and then makes others wait is slow`(): Unit = {
    val readMicros = Seq.fill(30)(100L) ++ Seq(100000L, 100000L)
    assertTrue(DiskProbe.typical(readMicros) >= MapSample.SlowMicros)
  }

  @Test def `one slow read does not make a disk slow`(): Unit =
    assertEquals(100L, DiskProbe.typical(Seq.fill(31)(100L) :+ 300000L))
}
