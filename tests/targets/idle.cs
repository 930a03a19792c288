// Does nothing at all: what a recording of a process without work says.
//
// idle
using System;

static class Idle
{
    static void Main()
    {
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine("idle");
    }
}
