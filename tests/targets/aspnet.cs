// A small ASP.NET Core server under a load of its own making: what most programs that are profiled look like.
// needs: Microsoft.AspNetCore.App 9.0
//
// aspnet [CLIENTS]
// Listens on a free port of the loopback address. `port` answers it, `count` the requests answered, `failed` those that failed;
// `collect` forces a collection of everything that nothing else runs beside, and answers how many such there were.
using System;
using System.Linq;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

static class Aspnet
{
    static long answered;
    static long failed;

    static async Task Main(string[] arguments)
    {
        int clients = arguments.Length > 0 ? int.Parse(arguments[0]) : 2;
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        WebApplication app = builder.Build();
        app.Run(Serve);
        await app.StartAsync();
        string address = app.Urls.First();
        for (int i = 0; i < clients; i++)
            _ = Task.Run(() => Load(address));
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "collect" ? Collected().ToString()
                : line == "count" ? Interlocked.Read(ref answered).ToString()
                : line == "failed" ? Interlocked.Read(ref failed).ToString()
                : line == "port" ? new Uri(address).Port.ToString() : "unknown");
        // Ends at once, as a process that is told to: its own clients would keep a graceful end waiting.
        Environment.Exit(0);
    }

    static int Collected()
    {
        GC.Collect(GC.MaxGeneration, GCCollectionMode.Forced, true);
        return GC.CollectionCount(GC.MaxGeneration);
    }

    static async Task Serve(HttpContext context)
    {
        string text = Digest(context.Request.Path);
        await context.Response.WriteAsync(text);
        Interlocked.Increment(ref answered);
    }

    /// Some work for a request.
    static string Digest(string path)
    {
        ulong digest = 14695981039346656037;
        for (int i = 0; i < 100; i++)
            foreach (char letter in path)
                digest = (digest ^ letter) * 1099511628211;
        return digest.ToString("x16");
    }

    static async Task Load(string address)
    {
        using var client = new HttpClient();
        for (int i = 0; ; i++)
        {
            try
            {
                await client.GetStringAsync(address + "/orders/" + i % 100);
            }
            catch (Exception)
            {
                Interlocked.Increment(ref failed);
            }
        }
    }
}
