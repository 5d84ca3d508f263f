// Command install fetches the Apache Kafka that tests run against.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

func main() {
	libs, err := kafkatest.Install(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("Apache Kafka", kafkatest.Version, "is in", libs)
}
