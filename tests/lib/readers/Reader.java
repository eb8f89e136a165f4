/* Reader: reads a topic's messages with the CloudEvents SDK for Java, and asks Java's producer for partitions */

import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.kafka.CloudEventDeserializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Reader {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("read"))
            read(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        else
            partitions(arguments[1], arguments[2]);
    }

    /* One line of JSON for each of `count` messages. */
    private static void read(String servers, String topic, int count) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", servers, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new CloudEventDeserializer())) {
            List<TopicPartition> all = consumer.partitionsFor(topic).stream()
                .map(p -> new TopicPartition(topic, p.partition())).toList();
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long end = System.nanoTime() + PATIENCE.toNanos();
            for (int seen = 0; seen < count && System.nanoTime() < end;)
                for (ConsumerRecord<byte[], CloudEvent> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(JSON.writeValueAsString(describe(record)));
                    seen++;
                }
        }
    }

    private static Map<String, Object> describe(ConsumerRecord<byte[], CloudEvent> record) {
        Map<String, Object> line = new HashMap<>();
        CloudEvent event = record.value();
        line.put("partition", record.partition());
        line.put("key", record.key() == null ? null : new String(record.key(), StandardCharsets.UTF_8));
        line.put("attributes", event == null ? null : attributes(event));
        line.put("data", event == null || event.getData() == null ? null
            : Base64.getEncoder().encodeToString(event.getData().toBytes()));
        return line;
    }

    private static Map<String, Object> attributes(CloudEvent event) {
        Map<String, Object> all = new TreeMap<>();
        for (String name : event.getAttributeNames())
            if (event.getAttribute(name) != null)
                all.put(name, event.getAttribute(name).toString());
        for (String name : event.getExtensionNames())
            all.put(name, event.getExtension(name));
        return all;
    }

    /* For each line of standard input, a key in base64, the partition to which Java's producer sent it. */
    private static void partitions(String servers, String topic) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", servers);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] key = Base64.getDecoder().decode(line);
                System.out.println(producer.send(new ProducerRecord<>(topic, key, new byte[0])).get().partition());
            }
        }
    }
}
