// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import scala.collection.mutable

/** Two services differ in a way that is not meant. */
private[level0] final class Difference(
    val operation: Operation,
    val expected: String,
    sparks: Any,
    ours: Any)
    extends RuntimeException(
      s"$operation\n  expected: $expected\n  Spark's service: $sparks\n  Lodestone: $ours")

/**
 * Compares the answers of both services, and follows what they have acknowledged. An answer that
 * an order of threads decides is accepted from a set, which the code names.
 */
private[level0] final class Comparison(sparksFiles: ExecutorFiles, ourFiles: ExecutorFiles) {
  import Answer._

  val world = new World

  /** How often each improvement was seen. */
  val seen: mutable.Map[Improvement, Long] = mutable.Map()

  private val pushes = new PushComparison(world, note)
  private val reads = new ReadComparison(world, note)
  private val diagnoses = new DiagnosisComparison(world, note)

  def note(improvement: Improvement): Unit =
    seen(improvement) = seen.getOrElse(improvement, 0L) + 1

  def compare(operation: Operation, sparks: Answer, ours: Answer): Unit = operation match {
    case push: Push => pushes.one(push, sparks, ours)
    case Together(_, all) => pushes.together(operation, all, parts(sparks), parts(ours))
    case PushByClient(_, all) => pushes.byClient(operation, all, parts(sparks), parts(ours))
    case request: Finalize => compareFinalize(request, sparks, ours)
    case read: ReadMerged => reads.merged(read, sparks, ours)
    case read: ReadChunk => reads.chunk(read, sparks, ours)
    case fetch: Fetch => reads.fetch(fetch, sparks, ours)
    case open: Open => reads.open(open, sparks, ours)
    case fetch: FetchByClient => reads.byClient(fetch, sparks, ours)
    case out: OutOfOrder => reads.outOfOrder(out, sparks, ours)
    case remove: RemoveForeign => compareRemoveForeign(remove, sparks, ours)
    case remove: RemoveOutput => compareRemoveOutput(remove, sparks, ours)
    case diagnose: Diagnose => diagnoses.compare(diagnose, sparks, ours)
    case end: EndExecutor => compareEndExecutor(end)
    case end: End => compareEnd(end, sparks, ours)
    case LocalDirs(_, _, _) => same(operation, sparks, ours)
    case _ =>
      change(operation)
      same(operation, sparks, ours)
  }

  /** The end of a push that was held, with these verdicts on it one after another. */
  def compareHeld(
      held: Held,
      partition: World.Partition,
      verdicts: Seq[World.Verdict],
      sparks: Answer,
      ours: Answer): Unit = pushes.held(held, partition, verdicts, sparks, ours)

  private def change(operation: Operation): Unit = operation match {
    case register: Register => world.register(register)
    case remove: RemoveMerge => world.removeMerge(remove)
    case write: WriteOutput =>
      val outputs = world.app(write.app).outputs
      val key = (write.exec, write.shuffle, write.map)
      val before = outputs.get(key).fold(Map[String, World.Sums]())(_.sums)
      val sums = before + (write.algorithm -> World.Sums(Content.sumsOf(write)))
      outputs(key) = new World.Output(Content.ofOutput(write), sums)
    case write: WriteRdd =>
      world.app(write.app).rdds((write.exec, write.rdd, write.split)) = Content.ofRdd(write)
    case RemoveRdd(app, exec, rdd, split, _) =>
      if (world.app(app).executors(exec)) world.app(app).rdds -= ((exec, rdd, split))
    case other => throw new IllegalArgumentException(s"$other changes nothing")
  }

  private def compareFinalize(request: Finalize, sparks: Answer, ours: Answer): Unit = {
    val ending = world.finalizeMerge(request)
    val (expected, areEqual) = ending match {
      case World.Refused => "both refuse" -> (isRefusal(sparks) && isRefusal(ours))
      case World.Finalized(shuffle) =>
        val (theirs, own) = (shuffle.statuses(_.sparks), shuffle.statuses(_.ours))
        s"$theirs and $own" -> (isStatuses(sparks, theirs, shuffle, _.sparks) &&
          isStatuses(ours, own, shuffle, _.ours))
      case World.LaterMerge =>
        note(Improvement.LaterMergeFinalized)
        "a refusal and no partitions" -> (isRefusal(sparks) && ours == Statuses(Map()))
      case World.Repeated(shuffle) =>
        note(Improvement.RepeatedFinalize)
        val own = shuffle.statuses(_.ours)
        s"a refusal and $own" -> (isRefusal(sparks) && isStatuses(ours, own, shuffle, _.ours))
    }
    if (!areEqual) throw new Difference(request, expected, sparks, ours)
  }

  /** Sizes are compared if it is known which of several blocks of a map was taken. */
  private def isStatuses(
      answer: Answer,
      expected: Map[Int, (Set[Int], Long)],
      shuffle: World.Shuffle,
      of: World.Partition => World.Merges): Boolean = answer match {
    case Statuses(found) => found.keySet == expected.keySet && found.forall {
        case (reduce, (maps, bytes)) =>
          val isKnown = of(shuffle.partitions(reduce)).hasKnownBytes
          maps == expected(reduce)._1 && (!isKnown || bytes == expected(reduce)._2)
      }
    case _ => false
  }

  private def compareRemoveForeign(remove: RemoveForeign, sparks: Answer, ours: Answer): Unit =
    if (world.app(remove.app).executors(remove.exec)) {
      note(Improvement.ForeignKept)
      val isSo = sparks == Count(1) && ours == Count(0) && isOursOnly(remove.app, remove.exec)
      if (!isSo) throw new Difference(remove, "kept by Lodestone only", sparks, ours)
    } else same(remove, sparks, ours)

  private def isOursOnly(app: Int, exec: Int): Boolean =
    !sparksFiles.hasForeign(app, exec) && ourFiles.hasForeign(app, exec)

  private def compareRemoveOutput(remove: RemoveOutput, sparks: Answer, ours: Answer): Unit = {
    val known = world.app(remove.app)
    if (known.executors(remove.exec)) {
      val output = known.outputs.get((remove.exec, remove.shuffle, remove.map))
      val (theirs, own) = output.fold((0, 0))(_.remove())
      val isSo = sparks == Count(theirs) && ours == Count(own)
      if (!isSo) throw new Difference(remove, s"$theirs files, and $own", sparks, ours)
    } else same(remove, sparks, ours)
  }

  /** Both answer nothing: their files are compared. */
  private def compareEndExecutor(end: EndExecutor): Unit = {
    val known = world.app(end.app)
    if (known.executors(end.exec)) {
      note(Improvement.FilesKept)
      val isSo = isOursOnly(end.app, end.exec)
      if (!isSo) throw new Difference(end, "kept by Lodestone only", sparksFiles, ourFiles)
      known.endedExecutors += end.exec
      known.outputsOf(end.exec).foreach { output =>
        output.sums = output.sums.map { case (name, sums) =>
          name -> sums.copy(areAtSparks = false)
        }
      }
    }
  }

  private def compareEnd(end: End, sparks: Answer, ours: Answer): Unit = {
    same(end, sparks, ours)
    val executors = world.app(end.app).executors.toSeq
    if (executors.nonEmpty) note(Improvement.DirectoriesKept)
    val theirs = executors.map(sparksFiles.hasDirs(end.app, _))
    val own = executors.map(ourFiles.hasDirs(end.app, _))
    val isSo = !theirs.contains(true) && !own.contains(false)
    if (!isSo) throw new Difference(end, "directories kept by Lodestone only", theirs, own)
    world.end(end.app)
  }

  private def parts(answer: Answer): Seq[Answer] = answer match {
    case Each(found) => found
    case other => throw new IllegalArgumentException(s"$other has no parts")
  }

  private def same(operation: Operation, sparks: Answer, ours: Answer): Unit =
    if (sparks != ours) throw new Difference(operation, "the same", sparks, ours)
}
