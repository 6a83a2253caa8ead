// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException

import org.apache.spark.shuffle.lodestone.HostPort
import org.apache.spark.shuffle.lodestone.wire.LaidSegment

// What a request can end with besides an answer, a refusal, or an IOException of the connection.
// FailureClass says what each of them means.

/** What answered at that address is no Lodestone daemon. */
private[spark] final class NotLodestoneException(service: HostPort, answer: String)
    extends IOException(s"$service is not a Lodestone service: $answer")

/** Spark's RpcFailure: the peer does not know the message, or failed in it. */
private[transport] final class RpcFailedException(cause: Throwable)
    extends IOException(cause.getMessage, cause)

/** No sign of life from the service for as long as the request may take. */
private[spark] final class RequestTimeoutException(service: HostPort, timeoutMs: Long)
    extends IOException(s"$service did not answer within $timeoutMs ms")

/** The service lives, as far as one can tell, but has not come to this request for too long. */
private[spark] final class SlowAnswerException(service: HostPort, timeoutMs: Long)
    extends IOException(s"$service is busy with others: no answer to this request in $timeoutMs ms")

/** A chunk arrived with other bytes than the map tasks wrote, or with other ones than its layout says. */
private[spark] final class DamagedChunkException(damage: String, val segment: DamagedSegment)
    extends IOException(damage)

/** By its name: what else a layout says of it may have been damaged on its way as well. */
private[spark] final case class DamagedSegment(
    reduceId: Int,
    mapIndex: Int,
    mapId: Long,
    sequence: Int) {

  def names(laid: LaidSegment): Boolean =
    laid.mapIndex == mapIndex && laid.mapId == mapId && laid.sequence == sequence
}

private[spark] object DamagedSegment {
  def of(reduceId: Int, laid: LaidSegment): DamagedSegment =
    DamagedSegment(reduceId, laid.mapIndex, laid.mapId, laid.sequence)
}

/** Our own map output cannot be read back. */
private[spark] final class OwnOutputException(map: String, cause: Throwable)
    extends IOException(s"the output of $map cannot be read: $cause", cause)
