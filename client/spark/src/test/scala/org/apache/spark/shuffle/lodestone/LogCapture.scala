// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property
import org.slf4j.LoggerFactory

/** What people read in the log. */
private[lodestone] object LogCapture {

  /** False where there is no logger, as on the class path of the tests of Spark 3.5. */
  val hears: Boolean = !LoggerFactory.getILoggerFactory.getClass.getName.contains("NOP")

  /** Warnings of everything of ours, while `body` runs. */
  def warnings(body: => Unit): Seq[String] = {
    val said = new ConcurrentLinkedQueue[String]()
    val appender = new AbstractAppender("capture", null, null, false, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit =
        if (event.getLevel == Level.WARN && event.getLoggerName.contains("lodestone")) {
          said.add(event.getMessage.getFormattedMessage)
          ()
        }
    }
    val root = LogManager.getRootLogger.asInstanceOf[Logger]
    appender.start()
    root.addAppender(appender)
    try body
    finally root.removeAppender(appender)
    said.toArray(Array.empty[String]).toSeq
  }
}
