// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.apache.spark.shuffle.lodestone.config.{Mode, ServiceSource}

/**
 * The one line of the log that says that Lodestone is in use. What goes as planned has no line, and
 * the sums at the end are missing if the driver is killed. All calls are events of the loop.
 */
private[driver] final class FirstShuffleNotice(mode: Mode, services: ServiceSource) {
  import FirstShuffleNotice._

  private var isSaid = false

  /** Returns the line with the first shuffle. */
  def apply(shuffleId: Int): Option[String] =
    if (isSaid) {
      None
    } else {
      isSaid = true
      Some(
        s"Lodestone plans shuffles from shuffle $shuffleId on, in mode ${mode.name}, " +
          s"for services $where")
    }

  private def where: String = services match {
    case ServiceSource.Embedded => "that executors start or find on their hosts"
    case ServiceSource.Dns(name, port) => s"at the addresses of $name, port $port"
    case ServiceSource.Listed(addresses) =>
      val more = addresses.size - MaxNamed
      addresses.take(MaxNamed).mkString("at ", ", ", if (more > 0) s" and $more more" else "")
  }
}

private[driver] object FirstShuffleNotice {
  private val MaxNamed = 5
}
