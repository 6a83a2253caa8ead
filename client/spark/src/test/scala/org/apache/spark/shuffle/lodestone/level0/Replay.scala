// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.apache.spark.network.client.TransportClient

/**
 * Runs operations at both services, one after another, and compares. `run` names the applications:
 * a run with another name begins with services that know nothing of it.
 */
private[level0] final class Replay(sparks: Service, ours: Service, run: String) {
  import Replay._

  private val theirs = new Requests(sparks, run)
  private val own = new Requests(ours, run)
  private val comparison = new Comparison(theirs.files, own.files)

  def world: World = comparison.world
  def seen: Map[Improvement, Long] = comparison.seen.toMap

  def step(operation: Operation): Unit = operation match {
    case held: Held
        if Generator.canBeHeld(world, held.push) && held.sent < held.push.bytes.length =>
      hold(held)
    case held: Held => (held.push :: held.inner).foreach(step)
    case Together(_, pushes) if !pushes.forall(isTaken) => pushes.foreach(step)
    case PushByClient(_, pushes) if !pushes.forall(hasCode) => pushes.foreach(step)
    // Spark's service would keep the offsets of a partition that still grows.
    case read: ReadChunk if isOpen(read.app, read.shuffle, read.merge, read.reduce) => ()
    case read: ReadMerged
        if read.fromDisk && isOpen(read.app, read.shuffle, read.merge, read.reduce) => ()
    case other => both(other)
  }

  private def both(operation: Operation): Unit = {
    val mayReadChunks = operation match {
      case read: ReadMerged => !isOpen(read.app, read.shuffle, read.merge, read.reduce)
      case _ => true
    }
    val connections = connectionsOf(operation)
    val (theirAnswer, ownAnswer) =
      (theirs.send(operation, mayReadChunks), own.send(operation, mayReadChunks))
    val (their, our) = (Service.await(theirAnswer), Service.await(ownAnswer))
    if (endsConnection(their) && connections.isEmpty) dropConnection(operation)
    comparison.compare(operation, their, our)
    connections.foreach(compareConnections(operation, _))
    operation match {
      case End(app) => clean(app)
      case _ => ()
    }
  }

  /** The connections of a push that is refused in a way that ends Spark's. */
  private def connectionsOf(operation: Operation): Option[Connections] = operation match {
    case push: Push if Seq(World.NotRegistered, World.OtherAttempt).contains(world.verdict(push)) =>
      Some(new Connections(push.on, sparks.connection(push.on), ours.connection(push.on)))
    case _ => None
  }

  private def compareConnections(operation: Operation, of: Connections): Unit = {
    val hasEnded = of.sparks.getChannel.closeFuture().await(EndTimeoutMs)
    val next = Service.await(own.nothing(of.on))
    val isKept = next == Answer.Done && (ours.connection(of.on) eq of.ours)
    if (!hasEnded || !isKept) {
      val expected = "a connection that ends, and one that goes on"
      throw new Difference(operation, expected, s"it has ended: $hasEnded", s"goes on: $isKept")
    }
  }

  /** True if Spark's service may end the connection, now or soon. */
  private def endsConnection(answer: Answer): Boolean = answer match {
    case Answer.Each(parts) => parts.exists(Answer.isRefusal)
    case Answer.Code(code) => code == 4
    case other => Answer.isRefusal(other)
  }

  private def dropConnection(operation: Operation): Unit = operation match {
    case push: Push => sparks.drop(push.on)
    case fetch: Fetch => sparks.drop(fetch.on)
    case open: Open => sparks.drop(open.on)
    case out: OutOfOrder => sparks.drop(out.on)
    case read: ReadChunk => sparks.drop(read.on)
    case fetch: FetchByClient => sparks.forget(theirs.files.appId(fetch.app))
    case _ => ()
  }

  private def hold(held: Held): Unit = {
    val partition = world.partition(held.push)
    val bytes = held.push.bytes
    def begin(requests: Requests): HeldPush = {
      val push = new HeldPush(requests.service, requests.messageOf(held.push), bytes)
      push.begin(held.sent)
      push
    }
    val (theirPush, ownPush) = (begin(theirs), begin(own))
    partition.held = Some(held.push.map)
    if (held.deletesLate) sparks.delayDeletions()
    def end(push: HeldPush): Answer = if (held.isTorn) push.tear() else push.finish()
    var verdicts = Seq[World.Verdict]()
    val (their, our) =
      try {
        held.inner.foreach { inner =>
          step(inner)
          verdicts :+= world.verdict(held.push)
        }
        (end(theirPush), end(ownPush))
      } finally sparks.resumeDeletions()
    partition.held = None
    comparison.compareHeld(held, partition, verdicts, their, our)
  }

  private def isTaken(push: Push): Boolean =
    world.verdict(push) == World.Takes && world.app(push.app).merging.exists(_.hasDirs) &&
      world.partition(push).held.isEmpty

  private def hasCode(push: Push): Boolean = isTaken(push) ||
    Seq(World.TooLate, World.Stale).contains(world.verdict(push))

  private def isOpen(app: Int, shuffle: Int, merge: Int, reduce: Int): Boolean =
    world.merged(app, shuffle, merge, reduce) == World.NotFinalized

  def endAll(): Unit = world.numbers.foreach(app => step(End(app)))

  /** The cluster manager deletes the directories of executors. */
  private def clean(app: Int): Unit =
    Seq(theirs, own).flatMap(_.files.blockManagerDirs(app)).foreach(ExecutorFiles.delete)
}

private[level0] object Replay {
  private val EndTimeoutMs = 20000L

  /** A connection to each service, before an operation. */
  private final class Connections(
      val on: Int,
      val sparks: TransportClient,
      val ours: TransportClient)
}
