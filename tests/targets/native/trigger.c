// A trigger that is a process of its own: passes its standard input to a diagnostics socket, waits for the answer, and ends.
//
// trigger SOCKET
// It ends with success if the answer is one.
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HEADER = 20, COMMAND = 17, ERROR = 0xFF, LONGEST = 65535 };

static int answered_with_success(int socket)
{
    unsigned char answer[HEADER];
    for (size_t length = 0; length < HEADER;) {
        ssize_t count = read(socket, answer + length, HEADER - length);
        if (count <= 0)
            return 0;
        length += (size_t)count;
    }
    return answer[COMMAND] != ERROR;
}

int main(int count, char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (count != 2 || strlen(arguments[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, arguments[1]);
    static unsigned char message[LONGEST];
    size_t length = fread(message, 1, sizeof message, stdin);
    int to = socket(AF_UNIX, SOCK_STREAM, 0);
    if (to < 0 || connect(to, (struct sockaddr *)&address, sizeof address) != 0)
        return 3;
    if (write(to, message, length) != (ssize_t)length)
        return 4;
    return answered_with_success(to) ? 0 : 1;
}
