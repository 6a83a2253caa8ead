// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.DamagedSegment

// The failures of a request besides refusals and IOExceptions of the connection. FailureClass says
// what each of them means.

private[spark] final class NotLodestoneException(service: HostPort, answer: String)
    extends IOException(s"$service is not a Lodestone service: $answer")

/** Spark's RpcFailure: the peer does not know the message, or failed while it handled it. */
private[transport] final class RpcFailedException(cause: Throwable)
    extends IOException(cause.getMessage, cause)

private[spark] final class RequestTimeoutException(service: HostPort, timeoutMs: Long)
    extends IOException(s"$service did not answer within $timeoutMs ms")

private[spark] final class SlowAnswerException(service: HostPort, timeoutMs: Long)
    extends IOException(
      s"$service may work on other requests, and did not answer this one within $timeoutMs ms")

/** The bytes of a chunk differ from what the map tasks wrote, or from what its layout says. */
private[spark] final class DamagedChunkException(damage: String, val segment: DamagedSegment)
    extends IOException(damage)

private[spark] final class OwnOutputException(map: String, cause: Throwable)
    extends IOException(s"the output of $map cannot be read: $cause", cause)
