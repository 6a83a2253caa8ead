// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.shuffle.lodestone.config.{HostPort, LodestoneConf}

/** Programs that are no good daemons. HostDaemonSuite has the real one. */
class EmbeddedDaemonSuite {
  private val ready =
    "lodestone ready listen=127.0.0.1:4040 incarnation=00000000000000aa pid=7 version=0.1.0"

  private def program(dir: Path, lines: String*): Path = {
    val file = dir.resolve("program")
    Files.write(file, ("#!/bin/sh" +: lines).mkString("", "\n", "\n").getBytes(UTF_8))
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwx------"))
  }

  private def command(dir: Path, binary: Path): DaemonCommand = DaemonCommand(
    binary = binary,
    host = "127.0.0.1",
    dirs = Seq(dir.resolve("a"), dir.resolve("b")),
    memoryBytes = Some(256L << 20),
    idleExitMs = 60000,
    announce = dir.resolve("x.announce"),
    log = dir.resolve("x.log"))

  private def failure(dir: Path, lines: String*): String = {
    val start = command(dir, program(dir, lines: _*))
    assertThrows(classOf[IOException], () => { EmbeddedDaemon.start(start, 2000); () }).getMessage
  }

  private def settings(binary: Path): LodestoneConf =
    LodestoneConf(new org.apache.spark.SparkConf(false)
      .set("spark.lodestone.embedded.binary", binary.toString))

  @Test def `the program gets all of its arguments`(@TempDir dir: Path): Unit = {
    val arguments = dir.resolve("arguments")
    val line = EmbeddedDaemon.start(
      command(dir, program(dir, s"""echo "$$@" > $arguments""", s"echo $ready")))
    assertEquals(HostPort("127.0.0.1", 4040), line.listen)
    assertEquals(
      s"serve --listen 127.0.0.1:0 --dir $dir/a,$dir/b --memory 262144KiB --idle-exit 60s " +
        s"--announce $dir/x.announce\n",
      new String(Files.readAllBytes(arguments), UTF_8))
  }

  @Test def `a program that fails is quoted`(@TempDir dir: Path): Unit = {
    val message = failure(dir, "echo earlier >&2", "echo no space left >&2", "exit 1")
    assertTrue(message.contains("ended without serving"), message)
    assertTrue(message.contains("no space left"), message)
  }

  @Test def `a program that says something else is quoted`(@TempDir dir: Path): Unit =
    assertTrue(failure(dir, "echo hello").contains("printed 'hello'"))

  @Test def `a program that says something else is ended`(@TempDir dir: Path): Unit = {
    val pid = dir.resolve("pid")
    failure(dir, s"echo $$$$ > $pid", "echo hello", "exec sleep 600")
    ForeignProcess.awaitEnd(new String(Files.readAllBytes(pid), UTF_8).trim.toLong)
  }

  @Test def `a program that says nothing is ended after a while`(@TempDir dir: Path): Unit = {
    val pid = dir.resolve("pid")
    val message = failure(dir, s"echo $$$$ > $pid", "exec sleep 600")
    assertTrue(message.contains("was not ready in 2000 ms"), message)
    ForeignProcess.awaitEnd(new String(Files.readAllBytes(pid), UTF_8).trim.toLong)
  }

  @Test def `only the last failure is quoted from a log that others wrote to`(
      @TempDir dir: Path): Unit = {
    failure(dir, "echo the first >&2", "exit 1")
    assertFalse(failure(dir, "echo the second >&2", "exit 1").contains("the first"))
  }

  @Test def `a log that has grown is put aside once`(@TempDir dir: Path): Unit = {
    Files.write(dir.resolve("x.log"), new Array[Byte](2 << 20))
    failure(dir, "echo now >&2", "exit 1")
    assertEquals("now\n", new String(Files.readAllBytes(dir.resolve("x.log")), UTF_8))
    assertEquals(2L << 20, Files.size(dir.resolve("x.log.1")))
  }

  @Test def `a program that is not there is named`(@TempDir dir: Path): Unit = {
    val missing = dir.resolve("missing")
    val host = new HostDaemon(settings(missing), Seq(dir), "me", "127.0.0.1", _ => Left("nobody"))
    val thrown = assertThrows(classOf[IOException], () => { host.findOrStart(); () })
    assertTrue(thrown.getMessage.startsWith(s"$missing cannot be executed"), thrown.getMessage)
  }

  @Test def `a daemon that announces another incarnation than the one that answers is not used`(
      @TempDir dir: Path): Unit = {
    val starts = dir.resolve("starts")
    val binary = program(dir, s"echo x >> $starts", s"echo $ready existing=true")
    val host = new HostDaemon(settings(binary), Seq(dir), "me", "127.0.0.1", _ => Right(0xbbL))
    val thrown = assertThrows(classOf[IOException], () => { host.findOrStart(); () })
    assertTrue(thrown.getMessage.contains("is another service"), thrown.getMessage)
    assertEquals("x\nx\n", new String(Files.readAllBytes(starts), UTF_8), "it is tried twice")
  }

  @Test def `a local directory that cannot be used is left out`(@TempDir dir: Path): Unit = {
    val file = Files.createFile(dir.resolve("file"))
    val arguments = dir.resolve("arguments")
    val binary = program(dir, s"""echo "$$@" > $arguments""", s"echo $ready")
    val roots = Seq(file, dir.resolve("good"))
    val host = new HostDaemon(settings(binary), roots, "me", "127.0.0.1", _ => Right(0xaaL))
    assertEquals(HostPort("127.0.0.1", 4040), host.findOrStart())
    val printed = new String(Files.readAllBytes(arguments), UTF_8)
    assertTrue(printed.contains(s"--dir $dir/good/lodestone-me "), printed)
    val none = new HostDaemon(settings(binary), Seq(file), "me", "127.0.0.1", _ => Right(0xaaL))
    val thrown = assertThrows(classOf[IOException], () => { none.findOrStart(); () })
    assertTrue(thrown.getMessage.startsWith("no usable local directory"), thrown.getMessage)
  }
}
