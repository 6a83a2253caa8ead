// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.spark.serializer.DeserializationStream;
import org.apache.spark.serializer.SerializationStream;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.serializer.SerializerInstance;
import scala.reflect.ClassTag;

/**
 * Writes a record to a shuffle as its hundred bytes, and nothing else: the key is the record, the
 * value is empty.
 */
final class RecordSerializer extends Serializer implements Serializable {
  private static final long serialVersionUID = 1L;

  @Override
  public SerializerInstance newInstance() {
    return new Instance();
  }

  /** Records are whole frames: they can be reordered, and streams can be concatenated. */
  @Override
  public boolean supportsRelocationOfSerializedObjects() {
    return true;
  }

  private static final class Instance extends SerializerInstance {
    @Override
    public SerializationStream serializeStream(OutputStream out) {
      return new Writing(out);
    }

    @Override
    public DeserializationStream deserializeStream(InputStream in) {
      return new Reading(in);
    }

    @Override
    public <T> ByteBuffer serialize(T value, ClassTag<T> type) {
      throw onlyStreams();
    }

    @Override
    public <T> T deserialize(ByteBuffer bytes, ClassTag<T> type) {
      throw onlyStreams();
    }

    @Override
    public <T> T deserialize(ByteBuffer bytes, ClassLoader loader, ClassTag<T> type) {
      throw onlyStreams();
    }

    private static UnsupportedOperationException onlyStreams() {
      return new UnsupportedOperationException("records are serialized in shuffles only");
    }
  }

  private static final class Writing extends SerializationStream {
    private final OutputStream out;

    Writing(OutputStream out) {
      this.out = out;
    }

    @Override
    public <T> SerializationStream writeKey(T key, ClassTag<T> type) {
      Record record = (Record) key;
      try {
        out.write(record.bytes, record.offset, Record.BYTES);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
      return this;
    }

    @Override
    public <T> SerializationStream writeValue(T value, ClassTag<T> type) {
      return this;
    }

    @Override
    public <T> SerializationStream writeObject(T value, ClassTag<T> type) {
      throw Instance.onlyStreams();
    }

    @Override
    public void flush() {
      try {
        out.flush();
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    @Override
    public void close() {
      try {
        out.close();
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }
  }

  /** Shows every record by the same object: a reader copies what it needs before the next one. */
  private static final class Reading extends DeserializationStream {
    private static final int BUFFER_BYTES = 640 * Record.BYTES;

    private final InputStream in;
    private final Record record = new Record(new byte[BUFFER_BYTES]);
    private int filled;

    Reading(InputStream in) {
      this.in = in;
    }

    /** Throws EOFException at the end, as Spark expects. */
    @Override
    @SuppressWarnings("unchecked")
    public <T> T readKey(ClassTag<T> type) {
      try {
        int next = record.offset + Record.BYTES;
        if (next + Record.BYTES <= filled) {
          record.offset = next;
        } else {
          fill();
          record.offset = 0;
        }
        return (T) record;
      } catch (IOException failed) {
        throw Reading.<RuntimeException>asIs(failed);
      }
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T readValue(ClassTag<T> type) {
      return (T) record;
    }

    /** Reads as many whole records as fit. */
    private void fill() throws IOException {
      filled = 0;
      while (filled < BUFFER_BYTES) {
        int count = in.read(record.bytes, filled, BUFFER_BYTES - filled);
        if (count < 0) {
          break;
        }
        filled += count;
      }
      if (filled == 0) {
        throw new EOFException();
      }
      if (filled % Record.BYTES != 0) {
        throw new IOException("a block ends within a record");
      }
    }

    /** Spark looks for this very exception; the compiler, in Java, for a declaration. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E asIs(IOException failure) throws E {
      throw (E) failure;
    }

    @Override
    public <T> T readObject(ClassTag<T> type) {
      throw Instance.onlyStreams();
    }

    @Override
    public void close() {
      try {
        in.close();
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }
  }
}
