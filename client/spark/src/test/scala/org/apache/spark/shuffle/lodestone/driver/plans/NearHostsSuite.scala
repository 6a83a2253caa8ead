// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.plan._

class NearHostsSuite {
  private val twoHosts = Map("a" -> 4, "b" -> 4)

  private def plan(
      hosts: Seq[String],
      partitions: Int,
      replicas: Int = 1,
      versions: Int = 1): ShufflePlan = {
    val services = hosts.map(ServiceLocation(_, 7337, 1)).toArray
    val all = Array.fill(versions)(services)
    ShufflePlan(0, partitions, replicas, all, hasLongStripes = true)
  }

  private def found(
      plan: ShufflePlan,
      reads: Seq[ReadSize],
      cores: Map[String, Int] = twoHosts,
      sizePerByte: Double = 1.0): Seq[Seq[String]] = {
    val hosts = new NearHosts(plan, 10, cores, sizePerByte = sizePerByte).of(reads)
    hosts.toSeq.flatMap(tasks => reads.indices.map(tasks(_)))
  }

  private def each(sizes: Long*): Seq[ReadSize] =
    sizes.zipWithIndex.map { case (size, index) => ReadSize(index, index + 1, Seq(size)) }

  @Test def `a task runs where its partition is`(): Unit =
    assertEquals(
      Seq(Seq("a"), Seq("a"), Seq("b"), Seq("b")),
      found(plan(Seq("a", "b"), 4), each(100, 100, 100, 100)))

  @Test def `a task that reads several partitions runs where most of its bytes are`(): Unit = {
    val reads = Seq(
      ReadSize(0, 2, Seq(100, 100)),
      ReadSize(2, 5, Seq(50, 50, 80)),
      ReadSize(5, 6, Seq(20)))
    assertEquals(Seq(Seq("a"), Seq("b"), Seq("b")), found(plan(Seq("a", "b"), 6), reads))
  }

  @Test def `a task with two replicas runs on either host`(): Unit = {
    val names =
      found(plan(Seq("a", "b", "c"), 3, replicas = 2), each(9, 9, 9), twoHosts + ("c" -> 4))
    assertEquals(Seq(Set("a", "b"), Set("b", "c"), Set("c", "a")), names.map(_.toSet))
  }

  @Test def `no host gets many more bytes than its cores take`(): Unit = {
    // The first service has nine tenths of the bytes.
    val names = found(plan(Seq("a", "b"), 40), each(Seq.fill(20)(90L) ++ Seq.fill(20)(10L): _*))
    val onlyA = names.count(_ == Seq("a"))
    assertTrue(onlyA >= 10 && onlyA <= 12, names.toString)
    assertTrue(names.slice(onlyA, 20).forall(_.toSet == Set("a", "b")), names.toString)
  }

  @Test def `a host with few cores gets few tasks`(): Unit = {
    val names = found(plan(Seq("a", "b"), 40), each(Seq.fill(40)(10L): _*), Map("a" -> 1, "b" -> 7))
    assertEquals(5, names.count(_ == Seq("a")))
    assertEquals(20, names.count(_ == Seq("b")))
  }

  @Test def `tasks of services that are elsewhere run anywhere`(): Unit = {
    val sizes = each(10, 10, 10, 10)
    assertEquals(Nil, found(plan(Seq("x", "y"), 4), sizes))
    val mixed = found(plan(Seq("a", "x"), 4), sizes)
    assertEquals(Seq(Seq("a"), Seq("a")), mixed.take(2))
    assertTrue(mixed.drop(2).forall(_.toSet == Set("a", "b")), mixed.toString)
  }

  @Test def `one host is no choice`(): Unit =
    assertEquals(Nil, found(plan(Seq("a"), 2), each(1, 1), Map("a" -> 4)))

  @Test def `blocks that are too large to be pushed have no host of ours`(): Unit = {
    val limited = plan(Seq("a", "b"), 2).copy(maxBlockBytes = 100)
    val names = found(limited, each(100 * 10 + 1, 100 * 10))
    assertEquals(Seq("b"), names(1))
    assertEquals(Set("a", "b"), names.head.toSet)
  }

  @Test def `partitions of encoded rows have hosts that their lengths allow`(): Unit = {
    val limited = plan(Seq("a", "b"), 2).copy(maxBlockBytes = 100)
    // Spark sees four times the bytes that are pushed.
    val sizes = each(100 * 10 * 4, 100 * 10)
    assertEquals(Set("a", "b"), found(limited, sizes).head.toSet)
    assertEquals(Seq(Seq("a"), Seq("b")), found(limited, sizes, sizePerByte = 4))
    val larger = found(limited, each(100 * 10 * 4 + 400, 600), sizePerByte = 4)
    assertEquals(Set("a", "b"), larger.head.toSet)
    assertEquals(Seq("b"), larger(1))
  }

  @Test def `a partition that many tasks read counts as pushed no sooner`(): Unit = {
    val limited = plan(Seq("a", "b"), 2).copy(maxBlockBytes = 100)
    // Adaptive execution splits the other side of a join, and each part needs all of this one.
    val repeated = Seq.fill(8)(ReadSize(0, 1, Seq(100L * 10 * 4 + 400)))
    val names = found(limited, repeated ++ each(0, 600).drop(1), sizePerByte = 4)
    assertTrue(names.init.forall(_ != Seq("a")), names.toString)
    assertEquals(Seq("b"), names.last)
  }

  @Test def `tasks of merged data that proved wrong have no host of ours`(): Unit = {
    val wrong = plan(Seq("a", "b"), 2).copy(distrusted = Some(Distrust(Reason.PushStale, 1)))
    assertEquals(Nil, found(wrong, each(1, 1)))
  }

  @Test def `empty partitions have hosts too where others have bytes`(): Unit = {
    val names = found(plan(Seq("a", "b"), 4, versions = 2), each(0, 0, 0, 7))
    assertTrue(names.size == 4 && names.forall(_.nonEmpty), names.toString)
  }

  @Test def `tasks that gain nothing run anywhere`(): Unit = {
    val (hosts, cores) = (Seq("a", "b", "c", "d", "e", "f"), 4)
    val all = hosts.map(_ -> cores).toMap
    // One task reads from all hosts: each has less than a fifth.
    assertEquals(Nil, found(plan(hosts, 6), Seq(ReadSize(0, 6, Seq.fill(6)(10L))), all))
    assertEquals(Nil, found(plan(hosts, 6), each(0, 0, 0, 0, 0, 0), all))
  }

  @Test def `different shuffles prefer different hosts where all have as much to do`(): Unit = {
    val hosts = (0 until 20).map(number => s"host$number")
    val cores = hosts.map(_ -> 1).toMap
    val empty = ReadSize(0, 1, Seq(0L))
    val first = (0 until 30).map { seed =>
      val reads = Seq(empty, ReadSize(1, 2, Seq(10L)))
      new NearHosts(plan(hosts, 20), 10, cores, seed).of(reads).get(0).head
    }
    assertTrue(first.distinct.size > 5, first.toString)
  }
}
