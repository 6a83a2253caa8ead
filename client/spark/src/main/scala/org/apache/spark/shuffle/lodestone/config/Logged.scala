// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.config

import org.slf4j.{Logger, LoggerFactory}

/** Gives a class its logger. To look one up walks the stack, so each class does it once. */
private[lodestone] trait Logged {
  protected final def log: Logger = Logged.loggers.get(getClass)
}

private object Logged {
  private val loggers = new ClassValue[Logger] {
    override def computeValue(owner: Class[_]): Logger =
      LoggerFactory.getLogger(owner.getName.stripSuffix("$"))
  }
}
