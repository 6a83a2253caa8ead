// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import java.io.File
import java.nio.file.{Path, Paths}

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf

class LocalRootsSuite {

  private val uuid = "0b1f3ac2-8d5e-4c7a-9e61-3f2d1c0b9a87"
  private val conf = new SparkConf(false).set("spark.local.dir", "/conf/a,/conf/b")

  private def roots(environment: (String, String)*): Seq[String] =
    LocalRoots(conf, environment.toMap).map(_.toString)

  @Test def `the configured directories are taken as they are`(): Unit = {
    assertEquals(Seq("/conf/a", "/conf/b"), roots())
    assertEquals(Seq("/ssd/1", "/ssd/2"), roots("SPARK_LOCAL_DIRS" -> "/ssd/1, /ssd/2,/ssd/1"))
  }

  @Test def `nothing configured means the temporary directory`(): Unit =
    assertEquals(
      Seq(new File(System.getProperty("java.io.tmpdir")).getAbsoluteFile.toPath.normalize.toString),
      LocalRoots(new SparkConf(false), Map.empty).map(_.toString))

  @Test def `the directories of a standalone worker for one executor are stripped`(): Unit =
    assertEquals(
      Seq("/ssd/1", "/ssd/2"),
      roots(
        "SPARK_EXECUTOR_DIRS" -> Seq("/ssd/1", "/ssd/2")
          .map(root => s"$root/spark-$uuid/executor-$uuid")
          .mkString(File.pathSeparator),
        "SPARK_LOCAL_DIRS" -> "/other"))

  @Test def `a volume that has a name of sparks is not left`(): Unit = {
    val volume = Paths.get(s"/var/data/spark-$uuid")
    def mounted(dir: String): Seq[Path] =
      LocalRoots(conf, Map("SPARK_LOCAL_DIRS" -> dir), _ == volume)
    assertEquals(Seq(volume), mounted(volume.toString))
    assertEquals(Seq(volume), mounted(s"$volume/spark-$uuid/executor-$uuid"))
    assertEquals(Seq(Paths.get("/var/data")), mounted(s"/var/data/executor-$uuid"))
  }

  @Test def `a directory that only looks like one of sparks stays`(): Unit =
    assertEquals(Seq("/ssd/spark-1"), roots("SPARK_LOCAL_DIRS" -> "/ssd/spark-1"))

  @Test def `on yarn the directories of the container count`(): Unit = {
    val yarn = "/nm/usercache/me/appcache/application_1_1"
    assertEquals(
      Seq(yarn),
      roots("CONTAINER_ID" -> "container_1", "LOCAL_DIRS" -> yarn, "SPARK_LOCAL_DIRS" -> "/x"))
    assertEquals(Seq("/x"), roots("LOCAL_DIRS" -> yarn, "SPARK_LOCAL_DIRS" -> "/x"))
  }

  @Test def `a daemon that applications share does not end with a container of another kind`()
      : Unit = {
    def ends(names: String*): Boolean =
      LocalRoots.areOfContainer(names.map(_ -> "container_1").toMap)
    assertTrue(ends("CONTAINER_ID", "LOCAL_DIRS"))
    assertFalse(ends("CONTAINER_ID"))
    assertFalse(ends("LOCAL_DIRS"))
  }
}
