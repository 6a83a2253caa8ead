// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import java.util.Locale

/** Figures as pages and lines of the log have them, the same wherever the JVM runs. */
private[driver] object Figures {
  def number(value: Long): String = "%,d".formatLocal(Locale.ROOT, value)

  /** @param thing in the singular, as `block` */
  def counted(value: Long, thing: String): String =
    if (value == 1) s"1 $thing" else s"${number(value)} ${thing}s"

  def millis(value: Long): String = s"${number(value)} ms"
}
