// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.CountDownLatch

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.rpc.{RpcAddress, RpcCallContext}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{GetCounts, GetPlan, GetReadPlan}

final class DriverEndpointSuite {

  /** The answer that an executor gets. */
  private final class Call extends RpcCallContext {
    var answers: Seq[Either[Throwable, Any]] = Nil
    override def reply(response: Any): Unit = answers :+= Right(response)
    override def sendFailure(cause: Throwable): Unit = answers :+= Left(cause)
    override def senderAddress: RpcAddress = null
  }

  @Test def `a driver with too many events fails questions, so that executors ask again`(): Unit = {
    val loop = new EventLoop
    val gate = new CountDownLatch(1)
    try {
      loop.post(gate.await())
      while (loop.offer(() => ())) {}
      val endpoint =
        new DriverEndpoint(null, loop, null, null, null, null, None, null, null, null)
      Seq(GetPlan(1, 0), GetReadPlan(1, 0), GetCounts(1, 0, 1, 0, 1)).foreach { question =>
        val call = new Call
        endpoint.receiveAndReply(call)(question)
        assertEquals(1, call.answers.size, question.toString)
        assertTrue(call.answers.head.isLeft, s"$question: ${call.answers}")
      }
    } finally {
      gate.countDown()
      loop.stop()
    }
  }
}
