// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.{ByteArrayInputStream, InputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.{Callable, CyclicBarrier, Executors, TimeUnit}

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

class BundledBinarySuite {
  private val program = "#!/bin/sh\necho it runs\n"

  private def resource: () => InputStream = () => new ByteArrayInputStream(program.getBytes(UTF_8))

  private def extracted(dir: Path): Path = BundledBinary.extract(dir, resource).file

  private def content(file: Path): String = new String(Files.readAllBytes(file), UTF_8)

  private def mode(file: Path): String =
    PosixFilePermissions.toString(Files.getPosixFilePermissions(file))

  private def outputOf(file: Path): String = {
    val process = new ProcessBuilder(file.toString).start()
    assertTrue(process.waitFor(10, TimeUnit.SECONDS))
    val bytes = new Array[Byte](64)
    new String(bytes, 0, process.getInputStream.read(bytes), UTF_8)
  }

  @Test def `the extracted program runs and is ours alone`(@TempDir dir: Path): Unit = {
    val file = extracted(dir)
    assertEquals("it runs\n", outputOf(file))
    assertEquals("rwx------", mode(file))
    assertEquals("rwx------", mode(file.getParent))
  }

  @Test def `a second extraction takes the existing program`(@TempDir dir: Path): Unit = {
    val first = extracted(dir)
    val inode = Files.getAttribute(first, "unix:ino")
    assertEquals(first, extracted(dir))
    assertEquals(inode, Files.getAttribute(first, "unix:ino"))
  }

  @Test def `another version gets a place of its own`(@TempDir dir: Path): Unit = {
    val first = extracted(dir)
    val second = BundledBinary.extract(dir, () => new ByteArrayInputStream(Array[Byte](1))).file
    assertNotEquals(first, second)
    assertEquals(program, content(first))
  }

  @Test def `a corrupted leftover is replaced`(@TempDir dir: Path): Unit = {
    val file = extracted(dir)
    Files.write(file, program.take(5).getBytes(UTF_8))
    assertEquals(file, extracted(dir))
    assertEquals(program, content(file))
  }

  @Test def `a leftover that cannot be executed is replaced`(@TempDir dir: Path): Unit = {
    val file = extracted(dir)
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"))
    extracted(dir)
    assertEquals("it runs\n", outputOf(file))
  }

  @Test def `many at once leave one whole program and nothing else`(@TempDir dir: Path): Unit = {
    val count = 8
    val start = new CyclicBarrier(count)
    val threads = Executors.newFixedThreadPool(count)
    try {
      val all = (1 to count).map { _ =>
        val extraction: Callable[Path] = () => {
          start.await(10, TimeUnit.SECONDS)
          extracted(dir)
        }
        threads.submit(extraction)
      }
      val files = all.map(_.get(20, TimeUnit.SECONDS)).distinct
      assertEquals(1, files.size)
      assertEquals(program, content(files.head))
      assertEquals(Seq("lodestone"), files.head.getParent.toFile.list().toSeq)
    } finally {
      threads.shutdownNow()
    }
  }

  @Test def `a directory that somebody else prepared is refused`(@TempDir dir: Path): Unit = {
    val foreign = Files.createDirectory(dir.resolve("foreign"))
    try {
      Files.setAttribute(foreign, "unix:uid", 12345)
    } catch {
      case _: IOException => assumeTrue(false, "only root can give a directory away")
    }
    val refusal = assertThrows(classOf[IOException], () => PrivateDirectory.open(dir, "foreign"))
    assertTrue(refusal.getMessage.contains("belongs to 12345"), refusal.getMessage)
    assertEquals(0, foreign.toFile.list().length)
  }

  @Test def `a link in place of the directory is refused`(@TempDir dir: Path): Unit = {
    Files.createSymbolicLink(dir.resolve("link"), Files.createDirectory(dir.resolve("elsewhere")))
    val refusal = assertThrows(classOf[IOException], () => PrivateDirectory.open(dir, "link"))
    assertTrue(refusal.getMessage.contains("is not a directory"), refusal.getMessage)
  }

  @Test def `a directory of ours that is open to others is closed`(@TempDir dir: Path): Unit = {
    val open = Files.createDirectory(dir.resolve("open"))
    Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"))
    assertEquals("rwx------", mode(PrivateDirectory.open(dir, "open")))
  }

  @Test def `the daemon that was built is in the jar and runs`(@TempDir dir: Path): Unit = {
    val built = Paths.get(System.getProperty("lodestone.binary"))
    require(Files.isExecutable(built), s"$built is missing: run `make build` first")
    val program = BundledBinary.extract(dir, () => BundledBinary.open())
    assertEquals(Program.of(built).digest, program.digest)
    assertEquals(program, Program.of(program.file))
    val process = new ProcessBuilder(program.file.toString, "--help").start()
    assertTrue(process.waitFor(10, TimeUnit.SECONDS))
    assertEquals(0, process.exitValue())
  }

  @Test def `each platform has a resource of its own`(): Unit = {
    assertEquals("lodestone/linux-x86_64/lodestone", BundledBinary.resourceName("Linux", "amd64"))
    assertEquals(
      "lodestone/linux-aarch64/lodestone",
      BundledBinary.resourceName("Linux", "aarch64"))
  }
}
