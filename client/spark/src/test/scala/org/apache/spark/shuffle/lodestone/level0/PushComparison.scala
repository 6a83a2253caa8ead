// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

/** Compares the answers to pushes. */
private[level0] final class PushComparison(world: World, note: Improvement => Unit) {
  import Answer.isRefusal
  import PushComparison._

  def one(push: Push, sparks: Answer, ours: Answer): Unit = world.verdict(push) match {
    case World.NotRegistered =>
      note(Improvement.ConnectionKept)
      // An application that is known, and does not push, has no attempt.
      val isSo = isRefusal(sparks) && (isFailed(ours) || ours == TooOldAttempt)
      check(push, "both refuse", isSo, sparks, ours)
    case World.OtherAttempt =>
      note(Improvement.ConnectionKept)
      // The end of the connection may arrive before the code.
      val isSo = (sparks == TooOldAttempt || isBroken(sparks)) && ours == TooOldAttempt
      check(push, "too old", isSo, sparks, ours)
    case World.Stale => both(push, StaleMerge, sparks, ours)
    case World.TooLate => both(push, Late, sparks, ours)
    case World.Takes => taken(push, world.partition(push), sparks, ours)
  }

  private def taken(push: Push, at: World.Partition, sparks: Answer, ours: Answer): Unit = {
    val isDuplicate = at.sparks.has(push.map)
    if (!world.app(push.app).merging.exists(_.hasDirs)) {
      note(Improvement.MakesDirectories)
      check(push, "merged by Lodestone", isRefusal(sparks) && ours == Merged, sparks, ours)
      at.isSameOrder = false
    } else if (!isDuplicate && at.held.exists(_ != push.map)) {
      note(Improvement.Queued)
      check(push, "collides", sparks == Collision && ours == Merged, sparks, ours)
      at.isSameOrder = false
    } else {
      both(push, Merged, sparks, ours)
      // Spark's service drops a copy of a block that it is writing.
      if (at.held.isEmpty) at.sparks.add(push) else at.isSameOrder = false
    }
    addOurs(push, at)
  }

  private def addOurs(push: Push, at: World.Partition): Unit =
    if (push.bytes.nonEmpty) at.ours.add(push) else note(Improvement.EmptyBlock)

  /** All of them are taken, with no block held. */
  def together(whole: Operation, pushes: Seq[Push], sparks: Seq[Answer], ours: Seq[Answer]): Unit =
    pushes.indices.groupBy(pushes(_).reduce).values.foreach {
      case Seq(alone) => one(pushes(alone), sparks(alone), ours(alone))
      case group =>
        val at = world.partition(pushes(group.head))
        at.isSameOrder = false
        group.groupBy(pushes(_).map).values.foreach { copies =>
          val isDuplicate = at.sparks.has(pushes(copies.head).map)
          // Which block comes first decides. Spark's service refuses one that arrives meanwhile.
          val allowed: Set[Answer] = if (isDuplicate) Set(Merged) else Set(Merged, Collision)
          val isSo = copies.forall(one => allowed(sparks(one)) && ours(one) == Merged)
          check(whole, s"$allowed, and $Merged", isSo, sparks, ours)
          if (copies.exists(sparks(_) == Merged)) at.sparks.addOneOf(copies.map(pushes))
          else note(Improvement.Queued)
          if (pushes(copies.head).bytes.nonEmpty) at.ours.addOneOf(copies.map(pushes))
          else note(Improvement.EmptyBlock)
        }
    }

  /** Spark's client sends them one after another on one connection, without waiting. */
  def byClient(whole: Operation, pushes: Seq[Push], sparks: Seq[Answer], ours: Seq[Answer])
      : Unit = {
    pushes.zip(sparks.zip(ours)).foreach { case (push, (theirs, own)) => one(push, theirs, own) }
    if (world.verdict(pushes.head) == World.Takes) {
      // Lodestone may merge them in another order.
      val crowded = pushes.groupBy(_.reduce).values.filter(_.size > 1)
      crowded.foreach(group => world.partition(group.head).isSameOrder = false)
    }
  }

  def held(
      held: Held,
      at: World.Partition,
      verdicts: Seq[World.Verdict],
      sparks: Answer,
      ours: Answer): Unit = {
    val push = held.push
    // Lodestone looks for the files of a large block before it has the bytes, at some time.
    val looks = if (push.reduce == Content.LargeReduce) verdicts else Nil
    val refusals = (looks :+ world.verdict(push)).collect(RefusalOf).toSet
    if (held.isTorn) {
      if (at.ours.has(push.map) && !at.sparks.has(push.map)) note(Improvement.KeptWhenTorn)
    } else world.verdict(push) match {
      case World.Takes =>
        both(held, Merged, sparks, ours)
        at.sparks.add(push)
        at.ours.add(push)
      case World.TooLate => both(held, Late, sparks, ours)
      case World.Stale =>
        // Spark's service looks first whether the new shuffle has the partition.
        val isSo = Set[Answer](StaleMerge, Late)(sparks) && refusals(ours)
        check(held, s"stale, and one of $refusals", isSo, sparks, ours)
      case World.OtherAttempt =>
        // Spark's service writes into a file that it is about to delete, or has closed.
        if (sparks == Merged) note(Improvement.NotIntoNothing)
        check(held, s"one of $refusals", refusals(ours), sparks, ours)
      case World.NotRegistered => check(held, "refused", isFailed(ours), sparks, ours)
    }
  }

  private def both(operation: Operation, expected: Answer, sparks: Answer, ours: Answer): Unit =
    check(operation, expected.toString, sparks == expected && ours == expected, sparks, ours)

  private def check(operation: Operation, expected: String, isSo: Boolean, sparks: Any, ours: Any)
      : Unit = if (!isSo) throw new Difference(operation, expected, sparks, ours)
}

private object PushComparison {
  val Merged: Answer = Answer.Code(0)
  val Late: Answer = Answer.Code(1)
  val Collision: Answer = Answer.Code(2)
  val StaleMerge: Answer = Answer.Code(3)
  val TooOldAttempt: Answer = Answer.Code(4)

  /** The code of a push that comes at a time with this verdict. */
  val RefusalOf: PartialFunction[World.Verdict, Answer] = {
    case World.TooLate => Late
    case World.Stale => StaleMerge
    case World.OtherAttempt => TooOldAttempt
  }

  def isFailed(answer: Answer): Boolean = answer.isInstanceOf[Answer.Failed]
  def isBroken(answer: Answer): Boolean = answer.isInstanceOf[Answer.Broken]
}
