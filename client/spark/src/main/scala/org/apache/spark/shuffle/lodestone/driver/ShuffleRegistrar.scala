// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import scala.concurrent.{ExecutionContext, Future}

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.services._
import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.ShuffleMode

/**
 * Makes the plan of a generation when the first map task asks where to push: chooses services and
 * registers the shuffle with them. Decided once per generation.
 */
private[driver] final class ShuffleRegistrar(
    shuffles: ShuffleTable,
    choice: MergeChoice,
    directory: ServiceDirectory,
    removals: Removals,
    registration: Registration,
    remover: ShuffleRemover,
    finalizer: MergeFinalizer,
    report: DriverReport,
    nearHosts: () => Future[Set[String]],
    loop: EventLoop) {
  private implicit val events: ExecutionContext = loop.context

  def plan(id: ShuffleGeneration, sample: MapSample, reply: SharedAnswer.Reply): Unit =
    newest(id) match {
      case Left(reason) => reply(NotMerged(reason.code))
      case Right(generation) if generation.plan.wasAsked || generation.plan.isDecided =>
        generation.plan.ask(reply)
      case Right(generation) =>
        val verdict = choice(generation.numMaps, sample)
        report.chose(id, sample, choice.limits(sample))
        verdict match {
          case MergeChoice.Leave(reason) =>
            generation.leftForNow = Some(reason)
            reply(NotMerged(reason.code, forNow = true))
          case MergeChoice.Merge(maxBlockBytes) =>
            generation.maxBlockBytes = maxBlockBytes
            generation.plan.ask(reply)
            val bytes = sample.bytesOf(generation.numMaps)
            findServices(generation, Demand(id.shuffleId, generation.numPartitions, bytes))
        }
    }

  private def findServices(generation: Generation, demand: Demand): Unit =
    directory.live { found =>
      if (found.isEmpty) {
        decide(generation, NotMerged(Reason.NoService.code))
      } else if (choice.isTooMuch(demand, found)) {
        decide(generation, NotMerged(Reason.ServicesStrained.code))
      } else if (!generation.removed) {
        report.counted(generation.id, Reason.ServiceLeftOut, directory.all.size - found.size)
        nearHosts().onComplete { near =>
          val chosen = Placement.choose(demand, found, near.getOrElse(Set.empty))
          if (!generation.removed) register(generation, chosen)
        }
      }
    }

  /** The generation that is asked for; a higher one than the known one takes its place. */
  private def newest(id: ShuffleGeneration): Either[Reason, Generation] =
    shuffles.find(id.shuffleId) match {
      case None => Left(Reason.UnknownShuffle)
      case Some(shuffle) =>
        shuffle.generation match {
          case Some(known) if known.id.mergeId > id.mergeId => Left(Reason.PushStale)
          case Some(known) if known.id == id => Right(known)
          case older =>
            older.foreach(remover.replaced)
            val generation = new Generation(id, shuffle.numMaps, shuffle.numPartitions)
            shuffle.generation = Some(generation)
            report.began(id)
            Right(generation)
        }
    }

  private def register(generation: Generation, chosen: Seq[Service]): Unit = {
    val maps = generation.numMaps
    val shuffle = Announcement(generation.id, ShuffleMode.Merge, maps, generation.numPartitions)
    registration(shuffle, chosen)(late = removals(_, generation.id)) { accepted =>
      report.counted(generation.id, Reason.ServiceLeftOut, chosen.size - accepted.size)
      registered(generation, accepted)
    }
  }

  private def registered(generation: Generation, locations: Seq[ServiceLocation]): Unit =
    if (locations.isEmpty) {
      decide(generation, NotMerged(Reason.ServiceRefused.code))
    } else if (generation.removed || generation.result.isDecided) {
      // A reader could not wait for this plan, or the shuffle is gone.
      locations.foreach(removals(_, generation.id))
      decide(generation, NotMerged(Reason.PushTooLate.code))
    } else {
      val places = locations.toArray
      val largest = generation.maxBlockBytes
      decide(generation, MergePlan(generation.numPartitions, places, maxBlockBytes = largest))
    }

  private def decide(generation: Generation, answer: DriverMessage): Unit = {
    generation.plan.decide(answer)
    finalizer.check(generation)
  }
}
