// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.loss

import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.plans.Shuffle
import org.apache.spark.shuffle.lodestone.plan.{LostAt, OutputsLost, Reason, ServiceLocation}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.Application

/** A claim that is judged after its shuffle was forgotten. */
final class LossClaimsLeakSuite {
  @Test def `nothing stays of a shuffle that went while a claim was judged`(): Unit = {
    val loop = new EventLoop()
    val client = new ServiceClient(Application("app", -1), 1000)
    val conf = LodestoneConf(new SparkConf(false).set("spark.lodestone.request.timeout", "1s"))
    val claims = new LossClaims(conf, client, () => Future.successful(3), loop)
    val gone = ServiceLocation("127.0.0.1", 1, 7)
    val outcome = Promise[LossClaims.Outcome]()
    val shuffle = new Shuffle(7, numMaps = 2, numPartitions = 50, keepsOriginals = false, 1)
    loop.post {
      val claim = OutputsLost(7, 0, LostAt(Seq(gone), Reason.LayoutFailed), "reader-1", 1, 42)
      claims.judge(shuffle, claim, _ => true)(outcome.success(_))
      claims.forget(shuffle.id)
      shuffle.remove()
    }
    Await.result(outcome.future, 30.seconds)
    assertEquals(0, claims.complainedOf)
    loop.stop()
    client.close()
  }
}
