// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.io.File
import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator

/** Both services for the length of a test, with operations by a seed. */
private[level0] final class Rounds extends AutoCloseable {
  import Rounds._

  private val root = Files.createTempDirectory("lodestone-level0-").toFile
  private val sparks = new SparksService(new File(root, "sparks"))
  private val ours = new LodestonesService(new File(root, "ours"))
  private var runs = 0

  // Spark's service writes the stack of each refusal to its log.
  Configurator.setLevel("org.apache.spark.network", Level.OFF)

  /** Runs these operations where nothing was before. Returns the improvements that they show. */
  def run(operations: Seq[Operation]): Map[Improvement, Long] = {
    val replay = another()
    operations.foreach(replay.step)
    replay.endAll()
    replay.seen
  }

  /** Runs operations by a seed. An error has the shortest operations that were found to show it. */
  def random(seed: Long, count: Int): Map[Improvement, Long] = {
    val replay = another()
    val generator = new Generator(seed, replay.world)
    val done = mutable.ArrayBuffer[Operation]()
    val began = System.nanoTime()
    try for (_ <- 0 until count) {
        done += generator.next()
        replay.step(done.last)
      }
    catch {
      case difference: Difference => throw explained(seed, done.toSeq, difference)
      // The test cannot go on: a service that does not answer, or a fault of the test itself.
      case other: Exception =>
        throw new AssertionError(s"seed $seed, operation ${done.size}: ${done.lastOption}", other)
    }
    val perSecond = count * TimeUnit.SECONDS.toNanos(1) / (System.nanoTime() - began)
    replay.endAll()
    awaitNoMergedFiles(seed)
    // For people: the report of the suite keeps it.
    println(s"level 0: seed $seed, $count operations, $perSecond per second, ${replay.seen}")
    Console.flush()
    replay.seen
  }

  /** The daemon deletes after it has answered. Nothing announces it. */
  private def awaitNoMergedFiles(seed: Long): Unit = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30)
    def left: Seq[File] =
      ExecutorFiles.below(ours.root).filter(_.getName.startsWith("shuffleMerged"))
    while (left.nonEmpty) {
      require(System.nanoTime() < end, s"seed $seed: files of ended applications stay: $left")
      Thread.`yield`()
    }
  }

  /**
   * New connections too: Lodestone ends one whose client has opened thousands of streams and reads
   * none of them (docs/storage.md, the sixteenth of the memory that streams have).
   */
  private def another(): Replay = {
    Seq(sparks, ours).foreach(_.dropAll())
    runs += 1
    new Replay(sparks, ours, runs.toString)
  }

  private def explained(seed: Long, done: Seq[Operation], difference: Difference)
      : AssertionError = {
    val shrunk = shortest(done)
    val list = shrunk.takeRight(ShownMost).mkString("List(\n  ", ",\n  ", ")")
    val where = s"seed $seed, operation ${done.size}"
    val what = s"${difference.getMessage}\nthe last of ${shrunk.size}: $list"
    new AssertionError(s"$where: $what", difference)
  }

  /** Leaves out what is not needed, for a limited time. */
  private def shortest(operations: Seq[Operation]): Seq[Operation] = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(ShrinkS)
    val app = operations.last.app
    val ofApp = operations.filter(_.app == app)
    var best = if (differs(ofApp)) ofApp else operations
    var part = best.size / 2
    while (part > 0 && System.nanoTime() < end) {
      var at = best.size - 1 - part
      while (at >= 0 && System.nanoTime() < end) {
        val without = best.patch(at, Nil, part)
        if (differs(without)) best = without
        at -= part
      }
      part /= 2
    }
    best
  }

  /** True if the last operation is one in which the services differ. */
  private def differs(operations: Seq[Operation]): Boolean =
    try {
      run(operations)
      false
    } catch {
      case difference: Difference => difference.operation == operations.last ||
        isHeldIn(operations.last, difference.operation)
      // Spark's service may hang, or a client end, without operations that are left out.
      case _: Exception => false
    }

  private def isHeldIn(whole: Operation, part: Operation): Boolean = whole match {
    case held: Held => held.push == part || held.inner.contains(part)
    case Together(_, pushes) => pushes.contains(part)
    case PushByClient(_, pushes) => pushes.contains(part)
    case _ => false
  }

  override def close(): Unit = {
    ours.close()
    sparks.close()
    Configurator.setLevel("org.apache.spark.network", Level.ERROR)
    ExecutorFiles.delete(root)
  }
}

private[level0] object Rounds {
  private val ShrinkS = 60L
  private val ShownMost = 100
}
