// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.embedded

import org.apache.spark.shuffle.lodestone.config.HostPort

/** The one line that a daemon prints when it serves, or that names the one which serves already. */
private[spark] final case class ReadyLine(
    listen: HostPort,
    incarnation: Long,
    pid: Long,
    version: String,
    existing: Boolean)

private[spark] object ReadyLine {
  private val Start = "lodestone ready "

  /** A line is short; what is longer is something else. */
  val MaxChars = 1024

  def parse(line: String): Option[ReadyLine] =
    if (!line.startsWith(Start) || line.length > MaxChars) {
      None
    } else {
      val fields = line.stripPrefix(Start).trim.split("\\s+").toSeq.flatMap { field =>
        field.split("=", 2) match {
          case Array(name, value) => Some(name -> value)
          case _ => None
        }
      }.toMap
      for {
        listen <- fields.get("listen").flatMap(HostPort.parse)
        hex <- fields.get("incarnation").filter(_.matches("[0-9a-fA-F]{1,16}"))
        incarnation = java.lang.Long.parseUnsignedLong(hex, 16) if incarnation != 0
        pid <- fields.get("pid").filter(_.matches("\\d{1,18}")).map(_.toLong)
        version <- fields.get("version")
      } yield ReadyLine(
        listen,
        incarnation,
        pid,
        version,
        fields.get("existing").contains("true"))
    }
}
